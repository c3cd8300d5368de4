package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/processes"
	"psim/exec/programs"
	"psim/schedules/graph"
)

// A Job is what a Trainer trains: the graph of one step, and the plan of stages
// that it was wired from, by which it is also priced.
type Job struct {
	Graph *graph.Graph
	*stages.Staged
	Optimizer programs.Optimizer
	// Recompute says which activations the forward does not keep.
	Recompute programs.Recompute
	// Seed of the parameters and of dropout, which do not depend on the split.
	Seed uint64
}

// A Batch is the data of one step, flat, sample by sample, those of the first
// replica first. A network of tokens takes Tokens, others Numbers; an image is
// rows × columns × channels. A target below 0 does not count in the loss, which is the
// mean over those of the whole batch that do, however they are shared out.
type Batch struct {
	Tokens  []int32
	Numbers []float32
	Targets []int32
}

// counted returns how many targets count in the loss.
func counted(targets []int32) (n int) {
	for _, t := range targets {
		if t >= 0 {
			n++
		}
	}
	return n
}

// meanOver returns the gradient of a sum of losses that a mean over so many targets
// begins with; 0 if there are none.
func meanOver(targets float64) []float32 {
	if targets == 0 {
		return []float32{0}
	}
	return []float32{float32(1 / targets)}
}

// upload copies inputs from one index to another to a device.
func (b Batch) upload(d *programs.Device, from, to int, dimensions []int) (*programs.Tensor, error) {
	if b.Tokens != nil {
		return programs.Upload(d, b.Tokens[from:to], dimensions...)
	}
	return programs.Upload(d, b.Numbers[from:to], dimensions...)
}

// A Trainer runs the steps of a job. It holds the parameters of every stage
// on the device of its rank.
type Trainer struct {
	job     Job
	plan    taskPlan
	devices []*programs.Device // by rank; nil for those of other processes
	members []*member          // likewise
	cache   *programCache
	routes  *routes         // of steps, where other processes have other ranks; nil until one is run
	steps   int             // since the last Reset
	calls   []int           // of the last step (see Training)
	heap    int64           // of other processes, at its end
	clock   processes.Clock // as it was last measured
	// residual is by how much the other processes' clocks may have been wrong.
	residual []time.Duration
}

// NewTrainer compiles the programs of every stage and makes the parameters:
// the first replica's from the seed, which are then copied to the others, unless each
// step broadcasts them. The devices stay the caller's; those of ranks that another
// process trains are nil.
func NewTrainer(job Job, devices []*programs.Device) (*Trainer, error) {
	if n := job.Graph.Ranks(); n != len(devices) {
		return nil, fmt.Errorf("%d devices for a graph of %d ranks", len(devices), n)
	}
	plan, err := planTasks(job)
	if err != nil {
		return nil, err
	}
	t := &Trainer{job: job, plan: plan, devices: devices, cache: newProgramCache(job)}
	t.members = make([]*member, len(devices))
	for rank, d := range devices {
		if d == nil {
			continue
		}
		if t.members[rank], err = t.newMember(rank); err != nil {
			t.Close()
			return nil, err
		}
	}
	if err := t.Reset(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Trainer) newMember(rank int) (*member, error) {
	d := t.devices[rank]
	m := &member{device: d, index: map[string]int{}, stages: make([]*stage, len(t.job.Stages)), sharded: t.job.Gathers()}
	if m.sharded {
		m.tensors = t.plan.shares()
		for i, share := range m.tensors {
			m.index[share.Name] = i
		}
	}
	for s := range t.job.Stages {
		if !t.job.Graph.Placement.Holds(int32(rank%t.job.Graph.Shape.Ranks), int32(s)) {
			continue
		}
		m.stages[s] = &stage{member: m}
		var whole []network.Tensor
		if m.sharded {
			whole = t.plan.wholeTensors(s)
		}
		for _, planned := range t.job.Stages[s].Segments {
			g, err := t.cache.segment(d.Backend, planned)
			if err != nil {
				return nil, fmt.Errorf("stage %d: %w", s, err)
			}
			m.learn(g, g.any().Parameters(), whole)
			m.stages[s].segments = append(m.stages[s].segments, g)
		}
	}
	var err error
	m.arithmetic = t.cache.arithmetic(d.Backend)
	m.updates, err = t.cache.updates(d.Backend, m.tensors)
	return m, err
}

// Reset gives all parameters their first values again and makes gradients and
// the optimizer's state zero.
func (t *Trainer) Reset() error {
	t.steps = 0
	ranks := t.job.Graph.Shape.Ranks
	for _, m := range t.members {
		m.release()
	}
	if t.job.Gathers() {
		if err := t.resetShares(); err != nil {
			return fmt.Errorf("shares of parameters: %w", err)
		}
	}
	for rank, m := range t.members {
		var err error
		switch {
		case m == nil: // another process's
			continue
		case m.sharded: // has its shares
		case t.job.Broadcast: // other replicas begin with weights of their own
			m.parameters, err = programs.InitializeTensors(m.device, m.tensors, t.job.Seed+uint64(rank/ranks))
		case rank < ranks || t.members[rank%ranks] == nil:
			m.parameters, err = programs.InitializeTensors(m.device, m.tensors, t.job.Seed)
		default:
			m.parameters, err = copyList(t.members[rank%ranks].parameters, m.device)
		}
		if err != nil {
			return fmt.Errorf("parameters of rank %d: %w", rank, err)
		}
		if err := m.start(); err != nil {
			return fmt.Errorf("gradients of rank %d: %w", rank, err)
		}
	}
	return nil
}

func copyList(list programs.List, d *programs.Device) (programs.List, error) {
	copied := make(programs.List, len(list))
	for i, x := range list {
		var err error
		if copied[i], err = x.CopyTo(d); err != nil {
			copied.Release()
			return nil, err
		}
	}
	return copied, nil
}

// Close frees the parameters and programs.
func (t *Trainer) Close() {
	for _, m := range t.members {
		m.release()
	}
	t.members = nil
	t.cache.close()
}

// own lists the members of this process.
func (t *Trainer) own() []*member {
	return slices.DeleteFunc(slices.Clone(t.members), func(m *member) bool { return m == nil })
}

// Parameters reads all parameters of a replica, by name.
func (t *Trainer) Parameters(replica int) (map[string][]float32, error) {
	held, err := t.held()
	if err != nil {
		return nil, err
	}
	return t.byReplica(held)[replica], nil
}

// held reads the parameters that every rank holds, by name.
func (t *Trainer) held() ([]map[string][]float32, error) {
	all := make([]map[string][]float32, len(t.members))
	for rank, m := range t.members {
		all[rank] = map[string][]float32{}
		if m == nil {
			continue
		}
		if err := readInto(all[rank], m.tensors, m.parameters); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// byReplica joins what the ranks hold.
func (t *Trainer) byReplica(held []map[string][]float32) []map[string][]float32 {
	list := make([]map[string][]float32, t.job.Graph.Shape.Replicas)
	if t.job.Gathers() {
		whole := t.plan.join(held)
		for d := range list {
			list[d] = whole
		}
		return list
	}
	for rank, own := range held {
		at := &list[rank/t.job.Graph.Shape.Ranks]
		if *at == nil {
			*at = map[string][]float32{}
		}
		maps.Copy(*at, own)
	}
	return list
}

// readInto reads tensors by their names.
func readInto(all map[string][]float32, tensors []network.Tensor, list programs.List) error {
	for i, t := range tensors {
		values, err := programs.Read[float32](list[i])
		if err != nil {
			return fmt.Errorf("reading %s: %w", t.Name, err)
		}
		all[t.Name] = values
	}
	return nil
}

// A runFunc runs the tasks of a graph: Run, or OneByOne.
type runFunc func(context.Context, *graph.Graph, Do, RunOptions) (*graph.Trace, error)

// stepWith trains on one batch by running the graph. It returns the trace, with
// the memory of the devices' tensors over time, and the mean loss before the
// step. After an error the trainer has to be Reset.
func (t *Trainer) stepWith(ctx context.Context, run runFunc, b Batch, o RunOptions, keep *capture) (*graph.Trace, float64, error) {
	s, err := t.newStep(b)
	if err != nil {
		return nil, 0, err
	}
	s.keep = keep
	if err := s.join(ctx, &o); err != nil {
		return nil, 0, err
	}
	o.Begin = time.Now()
	ledger := watchLedger(t.devices, o.Begin)
	trace, err := run(ctx, t.job.Graph, s.do, o)
	s.release()
	t.steps++
	trace.Memory, trace.Persistent = ledger.end()
	if err == nil {
		err = s.conclude(ctx, o.Begin, trace)
	}
	t.calls, t.heap = s.calls, s.heap
	return trace, s.loss(), err
}
