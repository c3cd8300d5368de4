package plans

import (
	"fmt"
	"slices"

	"psim/configs"
	"psim/schedules/order"
)

// A placementKey is what the places of stages depend on.
type placementKey struct {
	schedule                    string
	stages, virtual, microbatch int
}

// place notes where a plan's schedule puts its stages, and that it serves the shape.
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

// repeated reports whether a plan's order is that of a schedule which comes before its own
// in the catalog, and which all its plans have as well.
func (s *Space) repeatsEarlier(p *Plan) bool {
	if s.config.Parallel.ExpertOverlap && p.Expert > 1 { // by which orders change
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

func (s *Space) findEarlier(p *Plan, key placementKey) bool {
	own, shape := s.schedules[p.Schedule], s.shape(p)
	any := key
	any.schedule = ""
	for _, name := range s.schedulesFor[any] {
		before, other := s.schedules[name], key
		other.schedule = name
		switch {
		case name == p.Schedule:
			return false
		case s.placements[other] != s.placements[key], before.SerialBackward != own.SerialBackward, before.Stashing != own.Stashing:
			continue
		}
		a, err := own.Order(shape, nil)
		b, err2 := before.Order(shape, nil)
		if err == nil && err2 == nil && slices.EqualFunc(a, b, slices.Equal[[]order.Action]) {
			return true
		}
	}
	return false
}

// findKinds finds the kinds of orders.
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

// serial reports whether an order of several ranks has one action at a time, because each
// waits for the one before.
func isSerial(o order.Order) bool {
	clocks, err := o.Clocks()
	if err != nil {
		return false
	}
	all := slices.Concat(clocks...)
	slices.Sort(all)
	return len(slices.Compact(all)) == o.Actions()
}

// A kind of order says what a rank's backwards are, and beside what it works.
type orderKind int

const (
	wholeOrder  orderKind = iota // whole backwards
	splitOrder                   // I and W
	pairedOrder                  // I and W, and work beside exchanges: pairs of passes, or delayed weight gradients
	serialOrder                  // whole backwards, and one rank at a time
	orderKinds  = 4
)
