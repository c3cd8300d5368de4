package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"psim/exec/programs"
	"psim/internal/fault"
	"psim/schedules/graph"
)

// A step is one of a trainer. Its slots are written by one task and read
// by another that depends on it, so they need no lock.
type step struct {
	*Trainer
	batch  Batch
	slots  []slot    // by replica, stage and microbatch
	losses []float64 // sums, by replica and microbatch
	keep   *capture  // nil for nothing
	calls  []int     // of programs that make gradients, by rank
	still  bool      // to evaluate, without dropout
	part   *share    // of a run of several processes
	heap   int64     // of the other processes, at its end

	inputs, targets [][2]int // by replica and microbatch: from, to in the batch
	counted         int      // targets of the batch that count in the loss

	mu     sync.Mutex
	rounds map[roundKey]*round // collectives under way
	begun  map[roundKey]int    // how many of a key have begun
	// gathered parameters until they are used, and whole gradients until they
	// are scattered.
	gathered, scattered queue
}

// A slot is what a stage has of a microbatch between two tasks.
type slot struct {
	weights        programs.List     // from F until B or I, where they are stashed
	input          *programs.Tensor  // until F
	output         *programs.Tensor  // from F until it is sent
	saved          []*programs.Saved // from F until B or I, by segment
	work           []*programs.Work  // from I until W, by segment
	outputGradient *programs.Tensor  // until B or I
	inputGradient  *programs.Tensor  // from B or I until it is sent
}

// newStep divides the batch into microbatches, or says that it does not fit.
func (t *Trainer) newStep(b Batch) (*step, error) {
	g := t.job.Graph
	replicas, microbatches := g.Shape.Replicas, len(t.job.Samples)
	s := &step{
		Trainer: t, batch: b, slots: make([]slot, replicas*len(t.job.Stages)*microbatches),
		losses: make([]float64, replicas*microbatches), calls: make([]int, g.Ranks()), rounds: map[roundKey]*round{}, begun: map[roundKey]int{},
		gathered: queue{}, scattered: queue{},
	}
	samples := int(t.job.Total())
	last := t.job.Network.Layers[len(t.job.Network.Layers)-1].Output
	input, target := int(t.job.Network.Layers[0].Input.Elements()), int(last.Elements())/last[len(last)-1]
	if given := max(len(b.Tokens), len(b.Numbers)); given != samples*input || len(b.Targets) != samples*target {
		return nil, fmt.Errorf("a batch of %d inputs and %d targets for %d samples of %d and %d", given, len(b.Targets), samples, input, target)
	}
	if s.counted = counted(b.Targets); s.counted == 0 {
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

// loss returns the mean over the batch, as far as it has been computed.
func (s *step) loss() float64 {
	sum := 0.0
	for _, l := range s.losses {
		sum += l
	}
	return sum / float64(s.counted)
}

func (s *step) replica(rank int32) int { return int(rank) / s.job.Graph.Shape.Ranks }

// piece indexes what there is for every replica and microbatch.
func (s *step) piece(t graph.Task) int {
	return s.replica(t.Rank)*len(s.job.Samples) + int(t.Microbatch)
}

// at returns the slot of the task's microbatch at a stage.
func (s *step) at(t graph.Task, stage int32) *slot {
	return &s.slots[(s.replica(t.Rank)*len(s.job.Stages)+int(stage))*len(s.job.Samples)+int(t.Microbatch)]
}

func (s *step) stage(t graph.Task) *stage { return s.members[t.Rank].stages[t.Stage] }

func (s *step) program(g *segment, t graph.Task) *programs.Stage {
	bySize := g.bySize
	if s.still {
		bySize = g.still
	}
	return bySize[s.job.Sizes[s.job.SizeOf(&t)]]
}

func (s *step) release() {
	for i := range s.slots {
		x := &s.slots[i]
		for _, t := range []*programs.Tensor{x.input, x.output, x.outputGradient, x.inputGradient} {
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
}

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
	if damaged(ctx) == fault.NaN {
		if err := spoil(s.left(i)); err != nil {
			return err
		}
	}
	return s.keep.checkLeft(s, i)
}

func (s *step) work(ctx context.Context, i int32, t graph.Task) error {
	switch t.Kind {
	case graph.Forward:
		return s.forward(t)
	case graph.Backward, graph.InputGradient:
		return s.backward(t)
	case graph.WeightGradient:
		return s.weightGradient(t)
	case graph.SendForward, graph.SendBackward:
		return s.send(ctx, t)
	case graph.AllReduce:
		if s.job.Gathers() {
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
		m := s.members[t.Rank]
		return m.arithmetic.Scale(m.gradients, 1/float64(s.job.Graph.Shape.Replicas))
	case graph.Optimizer:
		return s.update(t.Rank)
	}
	return fmt.Errorf("%s is not executed yet", t.Kind)
}

func (s *step) update(rank int32) error {
	m := s.members[rank]
	if err := s.keep.keepGradients(rank, m); err != nil {
		return err
	}
	return m.updates.Step(m.parameters, m.gradients, &m.state)
}

// send copies a tensor to the device of another rank and frees it here. What goes to
// another process is packed instead.
func (s *step) send(ctx context.Context, t graph.Task) error {
	from, to := s.sent(t)
	if s.devices[t.Peer] == nil {
		return nil
	}
	copied, err := copyWhole(ctx, *from, s.devices[t.Peer])
	if err != nil {
		return err
	}
	(*from).Release()
	*from, *to = nil, copied
	return nil
}

// sent returns where a message takes its tensor from, and where it brings it.
func (s *step) sent(t graph.Task) (from, to **programs.Tensor) {
	if t.Kind == graph.SendForward {
		return &s.at(t, t.Stage).output, &s.at(t, t.Stage+1).input
	}
	return &s.at(t, t.Stage).inputGradient, &s.at(t, t.Stage-1).outputGradient
}

// pack makes a message to another process of a tensor, and frees it here. There is none
// where a network is evaluated and goes back over nothing.
func (s *step) pack(i int32) ([]byte, error) {
	from, _ := s.sent(s.job.Graph.Task(i))
	if *from == nil {
		return nil, nil
	}
	data, err := programs.List{*from}.Pack()
	(*from).Release()
	*from = nil
	return data, err
}

// unpack takes a tensor from another process in.
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
	list, err := programs.Unpack(s.devices[t.Peer], word)
	if err != nil || len(list) != 1 {
		list.Release()
		return cmp.Or(err, errors.New("a message of several tensors"))
	}
	_, to := s.sent(t)
	*to = list[0]
	return nil
}

// sameRank reports whether two stages share a device, so that no message
// passes between them.
func (s *step) sameRank(a, b int32) bool {
	return s.job.Graph.Placement.Together(int(a), int(b))
}
