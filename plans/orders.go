package plans

import (
	"fmt"
	"slices"

	"psim/configs"
	"psim/schedules/order"
)

// An orderKind says which backwards an order has, and what may overlap with them.
type orderKind int

const (
	wholeOrder  orderKind = iota // whole backwards
	splitOrder                   // I and W
	pairedOrder                  // work that overlaps with exchanges: pairs of passes, or delayed weight gradients
	serialOrder                  // whole backwards, and one rank works at a time
	orderKinds  = 4
)

// readOrderKinds finds the kind of every schedule's order.
func (s *Space) readOrderKinds() {
	for name, one := range s.schedules {
		s.orderKinds[name] = splitOrder
		if configs.IsSearched(name) {
			continue
		}
		switch o, err := one.Order(one.Example(), nil); {
		case err != nil || o.Paired() || s.config.Parallel.ExpertOverlap || s.config.Parallel.DelayWeights:
			s.orderKinds[name] = pairedOrder
		case o.Split():
		case one.Pipelined && isSerial(o):
			s.orderKinds[name] = serialOrder
		default:
			s.orderKinds[name] = wholeOrder
		}
	}
}

// isSerial reports whether every clock cycle of an order has a single action, because each
// action waits for the one before.
func isSerial(o order.Order) bool {
	clocks, err := o.Clocks()
	if err != nil {
		return false
	}
	all := slices.Concat(clocks...)
	slices.Sort(all)
	return len(slices.Compact(all)) == o.Actions()
}

// A placementKey holds the values on which a placement of stages depends.
type placementKey struct {
	schedule                    string
	stages, virtual, microbatch int
}

// placed is what is legal depends on of a placement.
type placed struct {
	stages int
	twice  bool // it has a second copy of the stages
}

// placed returns how a plan's schedule places its stages.
func (s *Space) placed(p *Plan) placed {
	key := placementKey{p.Schedule, p.Stages, p.VirtualStages, p.Microbatches}
	known, ok := s.shapes[key]
	if !ok {
		at := s.schedules[p.Schedule].Placement(s.shape(p))
		known = placed{len(at.First), at.Second != nil}
		s.shapes[key] = known
	}
	return known
}

// notePlacement notes where a plan's schedule puts its stages, and that the schedule
// serves this shape.
func (s *Space) notePlacement(p *Plan) {
	key := placementKey{p.Schedule, p.Stages, p.VirtualStages, p.Microbatches}
	if _, known := s.placements[key]; known {
		return
	}
	at := s.schedules[p.Schedule].Placement(s.shape(p))
	s.placements[key] = fmt.Sprint(at.First, at.Second, at.Half)
	key.schedule = ""
	s.schedulesFor[key] = append(s.schedulesFor[key], p.Schedule)
}

// repeatsEarlier reports whether a plan has the same order as another plan of the space
// whose schedule comes earlier in the catalog.
func (s *Space) repeatsEarlier(p *Plan) bool {
	if s.config.Parallel.ExpertOverlap && p.Expert > 1 { // orders change with expert_overlap
		return false
	}
	key := placementKey{p.Schedule, p.Stages, p.VirtualStages, p.Microbatches}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if same, known := s.sameOrder[key]; known {
		return same
	}
	s.sameOrder[key] = s.findEarlier(p, key)
	return s.sameOrder[key]
}

// findEarlier computes the answer that repeatsEarlier keeps.
func (s *Space) findEarlier(p *Plan, key placementKey) bool {
	own, shape := s.schedules[p.Schedule], s.shape(p)
	shapeKey := key
	shapeKey.schedule = ""
	for _, name := range s.schedulesFor[shapeKey] {
		if name == p.Schedule {
			return false
		}
		earlier, earlierKey := s.schedules[name], key
		earlierKey.schedule = name
		if s.placements[earlierKey] != s.placements[key] ||
			earlier.SerialBackward != own.SerialBackward || earlier.Stashing != own.Stashing {
			continue
		}
		a, err := own.Order(shape, nil)
		b, err2 := earlier.Order(shape, nil)
		if err == nil && err2 == nil && slices.EqualFunc(a, b, slices.Equal[[]order.Action]) {
			return true
		}
	}
	return false
}
