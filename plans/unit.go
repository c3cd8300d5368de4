package plans

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/results/rankings"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// A workKey is what plans have in common whose networks have the same to do for a
// microbatch, however they are cut and ordered.
type workKey struct {
	tensor, context, expert, expertTensor int
	micro                                 int64
	sequence                              bool
	recompute                             string
}

func workKeyOf(p *Plan) workKey {
	return workKey{p.Tensor, p.Context, p.Expert, p.ExpertTensor, p.Micro, p.Sequence, p.Recompute}
}

// A unitKey is what plans have in common whose stages are the same, on the same ranks:
// only the order in which these work differs.
type unitKey struct {
	workKey
	stages, data, zero int
	placement          string
}

// keyOf says which unit a plan is of.
func (s *Space) keyOf(p *Plan) unitKey {
	at := s.placements[placementKey{p.Schedule, p.Stages, p.VirtualStages, p.Microbatches}]
	return unitKey{workKeyOf(p), p.Stages, p.Data, p.Zero, at}
}

// whole finds the network of a plan for a microbatch, however it is cut.
func (s *Space) whole(p *Plan) (*configs.Cut, error) {
	one := *p
	one.Schedule, one.Stages, one.VirtualStages, one.Microbatches, one.Zero = "ddp", 1, 1, 1, 0
	return s.shared.Cut(func(c *configs.Config) {
		one.divide(s)(c)
		c.Batch.Global = p.Micro * int64(p.Data)
	})
}

// A unit prices the stages of plans. Nothing in it is a constant of its own: every time
// and every byte is what the simulation would take for the same task.
type unit struct {
	prices  // while it is made
	cut     *configs.Cut
	tensors int // of its stages, and more for their prices
	mutex   sync.Mutex
	kept    *ready // for simulations; nil: forgotten
	noted   bool   // among the units whose prices are kept

	pruned     string  // why no plan of it is worth a simulation
	bounds     bounds  // of the step
	capacity   int64   // of a rank; 0 is unlimited
	persistent []int64 // by rank of a replica
	process    stages.ProcessMemory
	held       []held // by stage
	walked     []bool // by rank: whether its memory is followed
}

// prices hold what a unit is made from.
type prices struct {
	*configs.Division
	graph      *graph.Graph // without tasks
	all        *costmodel.Prices
	costs      graph.Costs
	boundaries []wiring.Boundary  // sizes of messages
	exchanges  []wiring.Exchanges // of experts, by stage; nil for none
	sync       wiring.Sync        // what is summed over replicas
	group      func(rank int32, expert bool) int32
}

// Why plans are discarded.
const (
	Impossible  = "not possible"
	Parameters  = "parameters, gradients and optimizer do not fit"
	Activations = "even the fewest activations do not fit"
	Slower      = rankings.Slower
	Same        = "the same order as another"
)

// divide gives a configuration the values of a plan.
func (p *Plan) divide(s *Space) func(*configs.Config) {
	return func(c *configs.Config) {
		c.Parallel.Tensor, c.Parallel.Data, c.Parallel.Zero, c.Parallel.Sequence = p.Tensor, p.Data, p.Zero, p.Sequence
		c.Parallel.Context, c.Parallel.Expert, c.Parallel.ExpertTensor = p.Context, p.Expert, p.ExpertTensor
		c.Schedule.Name, c.Schedule.Stages, c.Schedule.VirtualStages = p.Schedule, p.Stages, p.VirtualStages
		c.Schedule.Microbatches, c.Batch.Micro, c.Batch.Global = p.Microbatches, p.Micro, s.Global
		c.Train.Recompute = p.Recompute
		if !slices.Contains(s.fixed, "schedule.group") {
			c.Schedule.Group = 0
		}
		if !slices.Contains(s.fixed, "schedule.partition") {
			c.Schedule.Partition.Layers, c.Schedule.Partition.Rule = nil, ""
			c.Schedule.FirstBlocks, c.Schedule.LastBlocks = 0, 0
		}
		if p.Zero < 3 {
			c.Parallel.Gather, c.Parallel.Simplified = "", false
		}
	}
}

// price makes the unit of plans that are cut so.
func price(cut *configs.Cut) *unit {
	d := cut.Divide()
	var err error
	u := &unit{cut: cut, capacity: d.Machine.RankMemory(), process: d.Workload.Process}
	for i := range d.Workload.Stages {
		u.tensors += 100 + len(d.Workload.Stages[i].Tensors)
	}
	u.persistent = slices.Clone(memory.Persistent(d.Workload, d.Shape.Ranks*max(1, d.Shape.Replicas))[:d.Shape.Ranks])
	if u.capacity > 0 && slices.Max(u.persistent) > u.capacity {
		u.pruned = Parameters
		return u
	}
	if u.prices, err = pricesOf(d); err != nil {
		return &unit{pruned: Impossible}
	}
	if u.activations() {
		u.pruned = Activations
	} else {
		u.bound()
	}
	u.kept, u.prices = u.prices.ready(), prices{} // which take memory
	return u
}

// pricesOf prices tasks that are not there: of a graph with groups and nothing else.
func pricesOf(d *configs.Division) (p prices, err error) {
	whole := wiring.Pipeline{Shape: d.Shape, Placement: d.Workload.Placement}
	d.Workload.Fill(&whole)
	p = prices{Division: d, boundaries: whole.Boundaries, exchanges: whole.Exchanges, sync: whole.Sync.Derived()}
	p.graph = &graph.Graph{Name: d.Schedule.Name, Shape: d.Shape, Placement: d.Workload.Placement, Layered: d.Workload.Zero == 3}
	p.group = whole.AddGroups(p.graph)
	if p.all, err = costmodel.NewPrices(d.Machine, d.Workload, p.graph); err != nil {
		return p, err
	}
	p.costs, err = p.all.Costs(p.graph)
	return p, err
}

// exchange prices what the devices of an expert group exchange in a forward of a stage, and
// in a backward.
func (u *unit) exchange(stage int, microbatch int32) (forward, backward time.Duration) {
	if u.exchanges == nil {
		return 0, 0
	}
	rank, x := u.graph.Placement.Rank(int32(stage), microbatch), &u.exchanges[stage]
	for part, bytes := range slices.Concat(x.Forward, x.Backward) {
		busy := u.costs.Task(&graph.Task{
			Kind: graph.AllToAll, Part: uint16(part), Rank: rank, Stage: int32(stage), Microbatch: microbatch,
			Peer: u.graph.Experts.ExchangeGroup(0, rank, int32(u.Shape.Ranks)), Bytes: bytes * u.Workload.Samples[0],
		}).Busy
		if part < len(x.Forward) {
			forward += busy
		} else {
			backward += busy
		}
	}
	return forward, backward
}

// task prices a task of the first replica.
func (u *unit) task(k graph.Kind, rank int32, stage int, microbatch int32) graph.Cost {
	return u.costs.Task(&graph.Task{Kind: k, Rank: rank, Stage: int32(stage), Microbatch: microbatch, Peer: graph.None})
}

// message prices what an action on a stage sends to the next one, or back to the one
// before: nothing on the same rank, and beyond the first and last.
func (u *unit) message(k graph.Kind, stage, to int, microbatch int32) graph.Cost {
	at := u.graph.Placement
	if min(stage, to) < 0 || max(stage, to) == at.Stages() || at.Together(stage, to) {
		return graph.Cost{}
	}
	bytes := u.boundaries[min(stage, to)].Forward
	if k == graph.SendBackward {
		bytes = u.boundaries[min(stage, to)].Backward
	}
	return u.costs.Task(&graph.Task{
		Kind: k, Rank: at.Rank(int32(stage), microbatch), Peer: at.Rank(int32(to), microbatch),
		Stage: int32(stage), Microbatch: microbatch, Bytes: bytes * u.Workload.Samples[0],
	})
}

// A placementKey is what the places of stages depend on.
type placementKey struct {
	schedule                    string
	stages, virtual, microbatch int
}

// place notes where a plan's schedule puts its stages, and that it serves the shape.
func (s *Space) place(p *Plan) {
	key := placementKey{p.Schedule, p.Stages, p.VirtualStages, p.Microbatches}
	if _, known := s.placements[key]; known {
		return
	}
	at := s.schedules[p.Schedule].Placement(s.shape(p))
	s.placements[key] = fmt.Sprint(at.First, at.Second, at.Half)
	key.schedule = ""
	s.serving[key] = append(s.serving[key], p.Schedule)
}

// repeated reports whether a plan's order is that of a schedule which comes before its own
// in the catalog, and which all its plans have as well.
func (s *Space) repeated(p *Plan) bool {
	if s.config.Parallel.ExpertOverlap && p.Expert > 1 { // by which orders change
		return false
	}
	key := placementKey{p.Schedule, p.Stages, p.VirtualStages, p.Microbatches}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if same, known := s.same[key]; known {
		return same
	}
	s.same[key] = s.repeats(p, key)
	return s.same[key]
}

func (s *Space) repeats(p *Plan, key placementKey) bool {
	own, shape := s.schedules[p.Schedule], s.shape(p)
	any := key
	any.schedule = ""
	for _, name := range s.serving[any] {
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
