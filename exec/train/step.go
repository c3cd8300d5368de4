package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/internal/fault"
	"psim/schedules/graph"
)

// A step is one step of a trainer. One task writes a state and another one, which depends on
// it, reads it; so states need no lock.
type step struct {
	*Trainer
	batch          data.StepBatch
	states         []passState  // by replica, stage and microbatch
	losses         []float64    // sums, by replica and microbatch
	capture        *capture     // what to record; nil for nothing
	calls          []int        // of programs that make gradients, by rank
	withoutDropout bool         // to evaluate
	portion        *run.Portion // of a step that several processes run
	heap           int64        // of the other processes, at the end of the step
	compiled       []ProgramMemory

	inputs, targets [][2]int // by replica and microbatch: from and to in the batch
	counted         int      // targets of the batch that count in the loss

	mu     sync.Mutex
	rounds map[roundKey]*round // collectives that have not ended
	begun  map[roundKey]int    // how many rounds of a key have begun
	// gathered parameters until they are used, and whole gradients until they are scattered.
	gathered, scattered queue
	shards              queue // that scatters leave until all groups have summed them
}

// A passState holds the tensors that a stage keeps for a microbatch between two tasks.
type passState struct {
	weights        backend.Tensors       // from F until B or I, if they are stashed
	input          *backend.DeviceTensor // until F
	output         *backend.DeviceTensor // from F until it is sent
	saved          []*kernels.Saved      // from F until B or I, by segment
	work           []*kernels.Deferred   // from I until W, by segment
	outputGradient *backend.DeviceTensor // until B or I
	inputGradient  *backend.DeviceTensor // from B or I until it is sent
}

// newStep divides the batch into microbatches. It fails if the batch does not fit.
func (t *Trainer) newStep(b data.StepBatch) (*step, error) {
	g := t.job.Graph
	replicas, microbatches := g.Shape.Replicas, len(t.job.Samples)
	s := &step{
		Trainer: t, batch: b, states: make([]passState, replicas*len(t.job.Stages)*microbatches),
		losses: make([]float64, replicas*microbatches), calls: make([]int, g.Ranks()),
		rounds: map[roundKey]*round{}, begun: map[roundKey]int{},
		gathered: queue{}, scattered: queue{}, shards: queue{},
	}
	samples := int(t.job.Total())
	last := t.job.Network.Layers[len(t.job.Network.Layers)-1].Output
	input, target := int(t.job.Network.Layers[0].Input.Elements()), int(last.Elements())/last[len(last)-1]
	if given := max(len(b.Tokens), len(b.Numbers)); given != samples*input || len(b.Targets) != samples*target {
		return nil, fmt.Errorf("a batch of %d inputs and %d targets for %d samples of %d and %d",
			given, len(b.Targets), samples, input, target)
	}
	if s.counted = data.Counted(b.Targets); s.counted == 0 {
		return nil, errors.New("a batch without a target that counts in the loss")
	}
	from := 0
	for r := range replicas {
		for m := range microbatches {
			n := t.job.SamplesOf(r, m)
			s.inputs = append(s.inputs, [2]int{from * input, (from + int(n)) * input})
			s.targets = append(s.targets, [2]int{from * target, (from + int(n)) * target})
			from += int(n)
		}
	}
	return s, nil
}

// loss returns the mean loss over the batch, as far as it has been computed.
func (s *step) loss() float64 {
	sum := 0.0
	for _, l := range s.losses {
		sum += l
	}
	return sum / float64(s.counted)
}

// replica returns the replica of a rank.
func (s *step) replica(rank int32) int { return int(rank) / s.job.Graph.Shape.Ranks }

// index returns the index of a task's microbatch among those of all replicas.
func (s *step) index(t graph.Task) int {
	return s.replica(t.Rank)*len(s.job.Samples) + int(t.Microbatch)
}

// state returns the state of the task's microbatch at a stage.
func (s *step) state(t graph.Task, stage int32) *passState {
	return &s.states[(s.replica(t.Rank)*len(s.job.Stages)+int(stage))*len(s.job.Samples)+int(t.Microbatch)]
}

// programs returns the programs of a segment for the size of the task's microbatch.
func (s *step) programs(g *segment, t graph.Task) *kernels.Programs {
	bySize := g.bySize
	if s.withoutDropout {
		bySize = g.withoutDropout
	}
	return bySize[s.job.Sizes[s.job.SizeOf(&t)]]
}

// release frees the tensors that the tasks of the step have left.
func (s *step) release() {
	for i := range s.states {
		x := &s.states[i]
		for _, t := range []*backend.DeviceTensor{x.input, x.output, x.outputGradient, x.inputGradient} {
			t.Release()
		}
		x.weights.Release()
		for _, saved := range x.saved {
			saved.Release()
		}
		for _, work := range x.work {
			work.Release()
		}
	}
	for _, r := range s.rounds {
		r.release()
	}
	s.gathered.release()
	s.scattered.release()
	s.shards.release()
}

// do performs a task on the device of its rank.
func (s *step) do(ctx context.Context, i int32) error {
	t := s.job.Graph.Task(i)
	leave, err := s.devices[t.Rank].Enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := s.work(ctx, i, t); err != nil {
		return err
	}
	if fault.DamageOf(ctx) == fault.NaN {
		if err := backend.Spoil(s.results(i)); err != nil {
			return err
		}
	}
	return s.capture.checkResults(s, i)
}

// work performs a task.
func (s *step) work(ctx context.Context, i int32, t graph.Task) error {
	switch t.Kind {
	case graph.Forward:
		return s.forward(t)
	case graph.Backward:
		return s.backward(t)
	case graph.InputGradient:
		if s.job.Unsplit(int(t.Stage)) {
			return nil // W does everything
		}
		return s.backward(t)
	case graph.WeightGradient:
		if s.job.Unsplit(int(t.Stage)) {
			return s.backward(t)
		}
		return s.weightGradient(t)
	case graph.Loss:
		return s.lossOf(t)
	case graph.Zero:
		return s.zero(t.Rank)
	case graph.SendForward, graph.SendBackward:
		return s.send(ctx, t)
	case graph.AllReduce:
		switch {
		case s.job.Graph.Sharing.SumsShares(t.Peer):
			return s.sumShards(ctx, t)
		case s.job.Gathers():
			return s.scatter(ctx, t)
		}
		return s.allReduce(ctx, i)
	case graph.Broadcast:
		return s.broadcast(ctx, t)
	case graph.AllGather:
		return s.gather(ctx, t)
	case graph.ReduceScatter:
		return s.scatter(ctx, t)
	case graph.Average:
		m := s.ranks[t.Rank]
		return m.arithmetic.Scale(m.gradients, 1/float64(s.job.Graph.Shape.Replicas))
	case graph.Optimizer:
		return s.update(t.Rank)
	}
	return fmt.Errorf("%s is not executed yet", t.Kind)
}

// update runs the optimizer on the parameters of a rank.
func (s *step) update(rank int32) error {
	m := s.ranks[rank]
	if err := s.capture.keepGradients(rank, m); err != nil {
		return err
	}
	return m.updates.Step(m.parameters, m.gradients, &m.state)
}

// zero sets the gradients of a rank to zero.
func (s *step) zero(rank int32) error {
	m := s.ranks[rank]
	m.gradients.Release()
	var err error
	m.gradients, err = kernels.Zeros(m.device, m.tensors)
	return err
}

// send copies a tensor to the device of another rank and frees it here. If that rank is in
// another process, pack does it.
func (s *step) send(ctx context.Context, t graph.Task) error {
	from, to := s.sent(t)
	if s.devices[t.Peer] == nil || *from == nil && t.Kind == graph.SendBackward {
		return nil // below are only frozen parts, which need no gradient
	}
	copied, err := (*from).Send(ctx, s.devices[t.Peer])
	if err != nil {
		return err
	}
	(*from).Release()
	*from, *to = nil, copied
	return nil
}

// sent returns where a message takes its tensor from, and where it puts it.
func (s *step) sent(t graph.Task) (from, to **backend.DeviceTensor) {
	if t.Kind == graph.SendForward {
		return &s.state(t, t.Stage).output, &s.state(t, t.Stage+1).input
	}
	return &s.state(t, t.Stage).inputGradient, &s.state(t, t.Stage-1).outputGradient
}

// pack makes a message to another process from a tensor, and frees the tensor. The message is
// empty if an evaluation has no gradient to send.
func (s *step) pack(i int32) ([]byte, error) {
	from, _ := s.sent(s.job.Graph.Task(i))
	if *from == nil {
		return nil, nil
	}
	data, err := backend.Tensors{*from}.Pack()
	(*from).Release()
	*from = nil
	return data, err
}

// unpack takes in a tensor from another process.
func (s *step) unpack(_ context.Context, i int32, word []byte) error {
	if len(word) == 0 {
		return nil
	}
	t := s.job.Graph.Task(i)
	leave, err := s.devices[t.Peer].Enter()
	if err != nil {
		return err
	}
	defer leave()
	list, err := backend.Unpack(s.devices[t.Peer], word)
	if err != nil || len(list) != 1 {
		list.Release()
		return cmp.Or(err, errors.New("a message of several tensors"))
	}
	_, to := s.sent(t)
	*to = list[0]
	return nil
}

// sameRank reports whether two stages share a device and therefore send each other nothing.
func (s *step) sameRank(a, b int32) bool {
	return s.job.Graph.Placement.Together(int(a), int(b))
}
