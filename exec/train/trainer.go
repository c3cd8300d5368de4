// Package train trains a network for real by running the graph of its step, spread over
// devices and processes in any way that a graph can say. A [Trainer] holds the parameters
// and runs steps; the result does not depend on the split, which a [Record] of an unsplit
// run proves.
package train

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/backend"
	"psim/exec/cluster"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/schedules/graph"
)

// A Job is what a Trainer trains: the graph of one step, and the plan of stages that it was
// wired from, which also prices it.
type Job struct {
	Graph *graph.Graph
	*stages.Staged
	Optimizer kernels.Optimizer
	// Recompute says which activations the forward does not keep.
	Recompute kernels.Recompute
	// Seed of the parameters and of dropout, which do not depend on the split.
	Seed uint64
}

// A Trainer runs the steps of a job. It holds the parameters of every stage on the device of
// its rank.
type Trainer struct {
	job     Job
	plan    taskPlan
	devices []*backend.LocalDevice // by rank; nil for ranks of other processes
	ranks   []*rankState           // by rank; nil for ranks of other processes
	cache   *programCache
	routes  *run.Routes // of steps that several processes run; nil until the first of them
	steps   int         // since the last Reset
	calls   []int       // of the last step (see Trained)
	heap    int64       // of the other processes, at the end of the last step
	// compiled are programs of all processes, at the end of the last step.
	compiled []ProgramMemory
	clock    cluster.Clock // as it was last measured
	// residual is how far the clocks of the other processes may have been off.
	residual []time.Duration
}

// NewTrainer compiles the programs of every stage and makes the parameters. The parameters of
// the first replica come from the seed and are copied to the others, unless each step
// broadcasts them. The devices remain the caller's; those of ranks that another process trains
// are nil.
func NewTrainer(job Job, devices []*backend.LocalDevice) (*Trainer, error) {
	if n := job.Graph.Ranks(); n != len(devices) {
		return nil, fmt.Errorf("%d devices for a graph of %d ranks", len(devices), n)
	}
	plan, err := planTasks(job)
	if err != nil {
		return nil, err
	}
	t := &Trainer{job: job, plan: plan, devices: devices, cache: newProgramCache(job)}
	t.compile()
	t.ranks = make([]*rankState, len(devices))
	for rank, d := range devices {
		if d == nil {
			continue
		}
		if t.ranks[rank], err = t.newRank(rank); err != nil {
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

// compile compiles the segments of all ranks here, as many at a time as there are cores. newRank reports errors.
func (t *Trainer) compile() {
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for rank, d := range t.devices {
		for s := range t.job.Stages {
			if d == nil || !t.holds(rank, s) {
				continue
			}
			for _, planned := range t.job.Stages[s].Segments {
				all.Go(func() {
					free <- struct{}{}
					defer func() { <-free }()
					_, _ = t.cache.segment(d.Backend, planned, t.job.backwards(s)) // the cache keeps the error
				})
			}
		}
	}
	all.Wait()
}

// holds reports whether a rank holds a stage.
func (t *Trainer) holds(rank, stage int) bool {
	return t.job.Graph.Placement.Holds(int32(rank%t.job.Graph.Shape.Ranks), int32(stage))
}

// newRank makes the state of a rank, with its programs.
func (t *Trainer) newRank(rank int) (*rankState, error) {
	d := t.devices[rank]
	m := &rankState{
		device: d, index: map[string]int{}, frozenIndex: map[string]int{},
		stages:  make([]*rankStage, len(t.job.Stages)),
		sharded: t.job.Gathers(),
	}
	if m.sharded {
		m.tensors = t.plan.shares()
		for i, share := range m.tensors {
			m.index[share.Name] = i
		}
	}
	for s := range t.job.Stages {
		if !t.holds(rank, s) {
			continue
		}
		m.stages[s] = &rankStage{rankState: m}
		var whole []network.Tensor
		if m.sharded {
			whole = t.plan.wholeTensors(s)
		}
		for _, planned := range t.job.Stages[s].Segments {
			g, err := t.cache.segment(d.Backend, planned, t.job.backwards(s))
			if err != nil {
				return nil, fmt.Errorf("stage %d: %w", s, err)
			}
			m.addTensors(g, g.any().Parameters(), whole)
			m.addFrozen(g)
			m.stages[s].segments = append(m.stages[s].segments, g)
		}
	}
	var err error
	m.arithmetic = t.cache.arithmetic(d.Backend)
	m.updates, err = t.cache.updates(d.Backend, m.tensors)
	return m, err
}

// Reset gives all parameters their first values again, and makes gradients and the optimizer's
// state zero.
func (t *Trainer) Reset() error {
	t.steps = 0
	ranks := t.job.Graph.Shape.Ranks
	for _, m := range t.ranks {
		m.release()
	}
	if t.job.Gathers() {
		if err := t.resetShares(); err != nil {
			return fmt.Errorf("shares of parameters: %w", err)
		}
	}
	for rank, m := range t.ranks {
		var err error
		switch {
		case m == nil: // of another process
			continue
		case m.sharded: // resetShares has set them
		case t.job.Broadcast: // the other replicas begin with different weights
			m.parameters, err = kernels.InitializeTensors(m.device, m.tensors, t.job.Seed+uint64(rank/ranks))
		case rank < ranks || t.ranks[rank%ranks] == nil:
			m.parameters, err = kernels.InitializeTensors(m.device, m.tensors, t.job.Seed)
		default:
			m.parameters, err = copyList(t.ranks[rank%ranks].parameters, m.device)
		}
		if err != nil {
			return fmt.Errorf("parameters of rank %d: %w", rank, err)
		}
		if m.frozenValues, err = kernels.InitializeTensors(m.device, m.frozen, t.job.Seed); err != nil {
			return fmt.Errorf("frozen parameters of rank %d: %w", rank, err)
		}
		if err := m.start(); err != nil {
			return fmt.Errorf("gradients of rank %d: %w", rank, err)
		}
	}
	return nil
}

// copyList copies tensors to a device.
func copyList(list backend.Tensors, d *backend.LocalDevice) (backend.Tensors, error) {
	copied := make(backend.Tensors, len(list))
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
	for _, m := range t.ranks {
		m.release()
	}
	t.ranks = nil
	t.cache.close()
}

// Participants lists the processes that have trained together; nil if there is only one.
func (t *Trainer) Participants(w *cluster.World) []run.Participant {
	return run.Participants(w, t.residual)
}

// ownRanks lists the ranks of this process.
func (t *Trainer) ownRanks() []*rankState {
	return slices.DeleteFunc(slices.Clone(t.ranks), func(m *rankState) bool { return m == nil })
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
	all := make([]map[string][]float32, len(t.ranks))
	for rank, m := range t.ranks {
		all[rank] = map[string][]float32{}
		if m == nil {
			continue
		}
		err := readInto(all[rank], m.tensors, m.parameters)
		if err == nil {
			err = readInto(all[rank], m.frozen, m.frozenValues)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// byReplica joins the parameters that the ranks of each replica hold.
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

// readInto reads tensors into a map by their names.
func readInto(all map[string][]float32, tensors []network.Tensor, list backend.Tensors) error {
	for i, t := range tensors {
		values, err := backend.Read[float32](list[i])
		if err != nil {
			return fmt.Errorf("reading %s: %w", t.Name, err)
		}
		all[t.Name] = values
	}
	return nil
}

// UploadInputs copies the inputs of a batch to a device.
func UploadInputs(d *backend.LocalDevice, b data.StepBatch, dimensions []int) (*backend.DeviceTensor, error) {
	if b.Tokens != nil {
		return backend.Upload(d, b.Tokens, dimensions...)
	}
	return backend.Upload(d, b.Numbers, dimensions...)
}
