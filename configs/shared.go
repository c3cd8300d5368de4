package configs

import (
	"cmp"
	"fmt"
	"sync"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// Sharing returns the experiment for many plans that divide the same network, from several
// goroutines: parts that plans have in common are made once. While it is in use, only Cut and
// Scheduled may change it.
func (c *Config) Sharing() *Config {
	v := *c
	v.shared = &shared{
		networks: map[group.Group]network.Network{}, adapters: map[group.Group]network.Network{},
		trainings: map[trainingKey]trained{}, checked: map[trainingKey]bool{}, bytes: map[group.Group]float64{},
		batches: map[batchKey][]int64{}, cuts: map[cutKey][]int{}, costs: map[cutKey][]float64{},
		known: &stages.Known{}, plans: map[stagedKey]*stages.Staged{}, pipelines: map[pipelineKey]wiring.Pipeline{},
	}
	return &v
}

// shared holds the parts that many plans of a network have in common. A nil shared keeps nothing.
type shared struct {
	mutex     sync.Mutex
	networks  map[group.Group]network.Network
	trainings map[trainingKey]trained
	checked   map[trainingKey]bool            // networks that can be trained so
	bytes     map[group.Group]float64         // of a sample
	adapters  map[group.Group]network.Network // networks with frozen parts
	machine   *costmodel.Machine
	divides   *models.Divider
	batches   map[batchKey][]int64
	plans     map[stagedKey]*stages.Staged
	cuts      map[cutKey][]int
	costs     map[cutKey][]float64 // of layers, for any number of stages
	pipelines map[pipelineKey]wiring.Pipeline
	actions   int           // in all pipelines
	known     *stages.Known // stages of plans
	planned   int           // stages of all plans
	tensors   int           // of plans whose stages are not known
	params    int           // tensors in all networks
}

// A trainingKey holds what the operations and parameters of a trained network depend on, except
// for recomputation.
type trainingKey struct {
	group     group.Group
	recompute string // set only if it decides which operands are kept
}

// A trained is a network as it is trained on one rank, and its parameters by layer.
type trained struct {
	unmarked network.Network // without marks on the operations that recomputation repeats
	network  network.Network // with these marks
	counts   []stages.ParameterCount
}

// trained returns the network of a workload as it is trained.
func (s *shared) trained(w *stages.Workload) trained {
	make := func() (trained, error) {
		n := w.Training.Trained(w.Network)
		return trained{n, w.Training.MarkRepeated(n, []int{len(n.Layers)}), stages.CountParameters(n.Layers)}, nil
	}
	if s == nil {
		t, _ := make()
		return t
	}
	key := trainingKey{group: w.Network.Group}
	if w.Training.Narrow() {
		key.recompute = w.Training.Recompute
	}
	t, _ := remember(s, s.trainings, key, make)
	return t
}

// check reports a training that a network cannot have. Networks of one experiment differ in their group only.
func (s *shared) check(n network.Network, t training.Options) error {
	check := func() (bool, error) { return true, cmp.Or(t.Check(n), t.CheckBlocks(n), t.CheckFrozen(n)) }
	if s == nil {
		_, err := check()
		return err
	}
	_, err := remember(s, s.checked, trainingKey{n.Group, t.Recompute}, check)
	return err
}

// bytesPerSample counts the bytes of a network for Workload.Validate.
func (s *shared) bytesPerSample(n network.Network) float64 {
	if s == nil {
		return stages.BytesPerSample(n)
	}
	bytes, _ := remember(s, s.bytes, n.Group, func() (float64, error) { return stages.BytesPerSample(n), nil })
	return bytes
}

// layerCosts prices the layers of a workload. With recompute_layers the costs depend on the number
// of stages, and are not shared.
func (s *shared) layerCosts(w *stages.Workload, m costmodel.Machine) ([]float64, error) {
	make := func() ([]float64, error) { return layerCosts(s.trained(w).unmarked.Layers, *w, m) }
	if s == nil || w.Training.RecomputeLayers > 0 {
		return make()
	}
	return remember(s, s.costs, cutKey{w.Network.Group, w.Training, w.Samples[0], 0}, make)
}

// A cutKey is what a balanced cut depends on.
type cutKey struct {
	group    group.Group
	training training.Options
	samples  int64
	stages   int
}

// A pipelineKey is what an order depends on.
type pipelineKey struct {
	schedule string
	shape    graph.Shape
	stages   int // layers, with ZeRO 3
}

// A stagedKey is what the stages of a plan depend on.
type stagedKey struct {
	group               group.Group
	layers, placement   string
	replicated, layered int // layered: the number of replicas that share layers
	sharded, loop       bool
	recompute           string // set only if it repeats exchanges with experts, or decides which operands are kept
}

// staged plans the stages of a workload, or copies the plan of a similar one.
func (s *shared) staged(w *stages.Workload) *stages.Staged {
	if s == nil {
		return w.Staged()
	}
	key := stagedKey{
		group: w.Network.Group, layers: fmt.Sprint(w.Layers), placement: fmt.Sprint(w.Placement),
		replicated: min(2, w.Replicas), sharded: w.Zero > 0, loop: w.Loop,
	}
	if w.Zero >= 3 {
		key.layered = w.Replicas
	}
	if w.Network.Group.Dispatches() || w.Training.Narrow() {
		key.recompute = w.Training.Recompute
	}
	staged, _ := remember(s, s.plans, key, func() (*stages.Staged, error) { return s.plan(w, key.recompute), nil })
	return w.StagedLike(staged)
}

// plan plans the stages of a workload, as far as they are not those of another plan.
func (s *shared) plan(w *stages.Workload, recompute string) *stages.Staged {
	if w.Loop || w.Training.RecomputeLayers > 0 {
		return s.forget(w.Staged(), 0)
	}
	s.mutex.Lock()
	known := s.known
	s.mutex.Unlock()
	trained := *w
	trained.Network = s.trained(w).network
	return s.forget(trained.StagedFrom(known, recompute), known.Tensors())
}

// forget drops the plans that are kept, and their stages, if one more would make them too large.
func (s *shared) forget(staged *stages.Staged, tensors int) *stages.Staged {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.planned += len(staged.Stages)
	if tensors == 0 {
		for i := range staged.Stages {
			s.tensors += len(staged.Stages[i].Tensors)
		}
	}
	if s.tensors+tensors+tensorsPerStage*s.planned > mostTensors {
		clear(s.plans)
		s.known, s.tensors, s.planned = &stages.Known{}, 0, 0
	}
	return staged
}

// tensorsPerStage is what a stage takes in a plan besides what is known of it, in tensors.
const tensorsPerStage = 10

// mostActions bounds the orders that are kept, and mostTensors the plans and the networks: a mixture of
// hundreds of experts has tens of thousands of tensors.
const (
	mostActions = 4 << 20
	mostTensors = 1 << 19
)

// remember returns the value of a key, or makes it.
func remember[K comparable, V any](s *shared, known map[K]V, key K, make func() (V, error)) (V, error) {
	s.mutex.Lock()
	v, ok := known[key]
	s.mutex.Unlock()
	if ok {
		return v, nil
	}
	v, err := make() // several goroutines may make the same value
	if err == nil {
		s.mutex.Lock()
		known[key] = v
		s.mutex.Unlock()
	}
	return v, err
}

func (s *shared) network(g group.Group, make func() (network.Network, error)) (network.Network, error) {
	if s == nil {
		return make()
	}
	return remember(s, s.networks, g, func() (network.Network, error) {
		n, err := make()
		count := 0
		for i := range n.Layers {
			count += len(n.Layers[i].Params)
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.params += count; s.params > mostTensors {
			clear(s.networks)
			clear(s.trainings)
			clear(s.plans)
			s.known, s.tensors, s.planned = &stages.Known{}, 0, 0
			s.params = count
		}
		return n, err
	})
}

// A batchKey is what the sizes of microbatches depend on, if all replicas have the same.
type batchKey struct {
	global, micro      int64
	data, microbatches int
}

// samples returns the sizes of microbatches, once for all plans with the same.
func (s *shared) samples(c *Config) (samples, shards []int64, err error) {
	if s == nil || c.Batch.Shards != nil {
		return c.Batch.Divide(c.Parallel.Data, c.Schedule.Microbatches)
	}
	key := batchKey{c.Batch.Global, c.Batch.Micro, c.Parallel.Data, c.Schedule.Microbatches}
	samples, err = remember(s, s.batches, key, func() ([]int64, error) {
		return c.Batch.Samples(c.Parallel.Data, c.Schedule.Microbatches)
	})
	return samples, nil, err
}

// divider returns what divides the model of a configuration, once.
func (s *shared) divider(c *Config) (*models.Divider, error) {
	if s == nil {
		s = &shared{}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.divides == nil {
		model, err := c.model()
		if err != nil {
			return nil, err
		}
		s.divides = model.Divider()
	}
	return s.divides, nil
}

func (s *shared) cut(w *stages.Workload, stages int, make func() ([]int, error)) ([]int, error) {
	if s == nil {
		return make()
	}
	return remember(s, s.cuts, cutKey{w.Network.Group, w.Training, w.Samples[0], stages}, make)
}

// pipeline makes an order, and keeps it.
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

// adapted returns a network with its frozen parts and adapters.
func (s *shared) adapted(n network.Network, t training.Options) network.Network {
	if s == nil || !t.Adapts() && t.Frozen == "" {
		return t.Adapted(n)
	}
	made, _ := remember(s, s.adapters, n.Group, func() (network.Network, error) { return t.Adapted(n), nil })
	return made
}
