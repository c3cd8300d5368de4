package configs

import (
	"fmt"
	"slices"
	"sync"

	"psim/costmodel"
	"psim/costmodel/arch"
	"psim/costmodel/stages"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// A Division is an experiment with a [model] that has been cut and placed: all that a
// Plan has but its graph.
type Division struct {
	Workload *stages.Plan
	Machine  costmodel.Machine
	Schedule schedules.Schedule
	Shape    graph.Shape
	config   *Config
}

// A Cut is what a Division is made from: a network that has been cut and placed, without
// what its stages are.
type Cut struct {
	Workload *stages.Workload
	Machine  costmodel.Machine
	Schedule schedules.Schedule
	Shape    graph.Shape
	config   *Config
}

// Cut cuts and places the network as the experiment has it after a change of
// [schedule], [parallel], [batch] and train.recompute.
func (c *Config) Cut(change func(*Config)) (*Cut, error) {
	v := *c
	v.dropped = append(slices.Clip(c.dropped), "schedule.partition", "schedule.placement", "schedule.stages")
	change(&v)
	schedule, err := findSchedule(v.Schedule.Name)
	if err != nil {
		return nil, err
	}
	w, machine, err := v.workload(schedule)
	if err != nil {
		return nil, err
	}
	return &Cut{w, machine, schedule, v.shape(schedule, len(w.Samples)), &v}, nil
}

// Divide plans the stages of a cut.
func (k *Cut) Divide() *Division {
	return &Division{k.config.shared.plan(k.Workload), k.Machine, k.Schedule, k.Shape, k.config}
}

// Scheduled returns the division of the experiment after a change that leaves the stages as
// they are, and where: of the schedule.
func (d *Division) Scheduled(by schedules.Schedule, change func(*Config)) *Division {
	v := *d.config
	change(&v)
	return &Division{d.Workload, d.Machine, by, v.shape(by, len(d.Workload.Samples)), &v}
}

// Pipeline readies the schedule for wiring, in an order that does not depend on costs.
func (d *Division) Pipeline() (wiring.Pipeline, error) {
	p, err := d.config.shared.pipeline(d.Schedule, d.Shape, d.Workload.Placement.First)
	if err == nil {
		p, err = d.config.exchanging(d.Schedule, p)
	}
	if err == nil {
		err = d.config.checkTwoPass(p.Order.Split())
	}
	if err != nil {
		return p, err
	}
	d.Workload.Fill(&p)
	p.Optimizer, p.Synchronous = true, d.config.Schedule.Synchronous
	return p, nil
}

// Sharing returns the experiment for plans that divide the same network: what is the
// same for many of them is made once, even where they are made side by side. Until it
// is used no more, nothing may change but what Divide may.
func (c *Config) Sharing() *Config {
	v := *c
	v.shared = &shared{networks: map[arch.Group]arch.Network{}, cuts: map[cutKey][]int{}, plans: map[planKey]*stages.Plan{}, pipelines: map[pipelineKey]wiring.Pipeline{}}
	return &v
}

// shared holds what many plans of a network have in common. nil holds nothing.
type shared struct {
	mutex     sync.Mutex
	networks  map[arch.Group]arch.Network
	machine   *costmodel.Machine
	plans     map[planKey]*stages.Plan
	cuts      map[cutKey][]int
	pipelines map[pipelineKey]wiring.Pipeline
	actions   int // in all pipelines
	tensors   int // in all plans
}

// A cutKey is what a balanced cut depends on.
type cutKey struct {
	group    arch.Group
	training arch.Training
	samples  int64
	stages   int
}

// A pipelineKey is what an order depends on.
type pipelineKey struct {
	schedule string
	shape    graph.Shape
	stages   int // layers, with ZeRO 3
}

// A planKey is what the stages of a plan depend on.
type planKey struct {
	group               arch.Group
	layers, placement   string
	replicated, layered int // layered: replicas, which share layers
	sharded             bool
	recompute           string // where that exchanges tokens with experts again
}

// plan makes the plan of a workload, or one like another.
func (s *shared) plan(w *stages.Workload) *stages.Plan {
	if s == nil {
		return w.Plan()
	}
	key := planKey{group: w.Network.Group, layers: fmt.Sprint(w.Layers), placement: fmt.Sprint(w.Placement), replicated: min(2, w.Replicas), sharded: w.Zero > 0}
	if w.Zero >= 3 {
		key.layered = w.Replicas
	}
	if w.Network.Group.Dispatches() {
		key.recompute = w.Training.Recompute
	}
	p, _ := remember(s, s.plans, key, func() (*stages.Plan, error) { return s.forgetting(w.Plan()), nil })
	return w.PlanLike(p)
}

// forgetting drops the plans that are kept where another would make them too large.
func (s *shared) forgetting(p *stages.Plan) *stages.Plan {
	tensors := 0
	for i := range p.Stages {
		tensors += len(p.Stages[i].Tensors)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.tensors += tensors; s.tensors > mostTensors {
		clear(s.plans)
		s.tensors = tensors
	}
	return p
}

// mostActions bounds the orders that are kept, and mostTensors the plans: a mixture of
// hundreds of experts has tens of thousands.
const (
	mostActions = 4 << 20
	mostTensors = 4 << 20
)

// remember returns what is known by a key, or makes it.
func remember[K comparable, V any](s *shared, known map[K]V, key K, make func() (V, error)) (V, error) {
	s.mutex.Lock()
	v, ok := known[key]
	s.mutex.Unlock()
	if ok {
		return v, nil
	}
	v, err := make() // twice, if two need it at once
	if err == nil {
		s.mutex.Lock()
		known[key] = v
		s.mutex.Unlock()
	}
	return v, err
}

func (s *shared) network(g arch.Group, make func() (arch.Network, error)) (arch.Network, error) {
	if s == nil {
		return make()
	}
	return remember(s, s.networks, g, make)
}

func (s *shared) cut(w *stages.Workload, stages int, make func() ([]int, error)) ([]int, error) {
	if s == nil {
		return make()
	}
	return remember(s, s.cuts, cutKey{w.Network.Group, w.Training, w.Samples[0], stages}, make)
}

// pipeline makes an order, and keeps it while there is room.
func (s *shared) pipeline(of schedules.Schedule, shape graph.Shape, stageRank []int32) (wiring.Pipeline, error) {
	make := func() (wiring.Pipeline, error) { return of.Pipeline(shape, stageRank) }
	if s == nil {
		return make()
	}
	key := pipelineKey{of.Name, shape, len(stageRank)}
	key.shape.Replicas = 0
	p, err := remember(s, s.pipelines, key, func() (wiring.Pipeline, error) {
		p, err := make()
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.actions += p.Order.Actions(); s.actions > mostActions {
			clear(s.pipelines)
			s.actions = p.Order.Actions()
		}
		return p, err
	})
	if err != nil {
		return p, fmt.Errorf("schedule.%w", err)
	}
	p.Shape.Replicas = shape.Replicas
	return p, nil
}

// readMachine reads the machine, once.
func (s *shared) readMachine(make func() (costmodel.Machine, error)) (costmodel.Machine, error) {
	if s == nil {
		return make()
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.machine == nil {
		m, err := make()
		if err != nil {
			return m, err
		}
		s.machine = &m
	}
	return *s.machine, nil
}
