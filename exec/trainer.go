package exec

import (
	"context"
	"errors"
	"fmt"

	"psim/costmodel/arch"
	"psim/exec/programs"
	"psim/schedules"
)

// A Job is what a Trainer trains: a network cut into stages, and the graph of
// one step over microbatches.
type Job struct {
	Graph   *schedules.Graph
	Network arch.Network
	// Layers[s] is the number of layers of stage s, as the graph has them.
	Layers []int
	// Samples[m] is the size of microbatch m.
	Samples   []int
	Optimizer programs.Optimizer
	// Seed of the parameters, which do not depend on the split.
	Seed uint64
}

// A Batch is the data of one step, flat, sample by sample. A network of
// tokens takes Tokens, others Numbers; an image is rows × columns × channels.
type Batch struct {
	Tokens  []int32
	Numbers []float32
	Targets []int32
}

// A Trainer runs the steps of a job. It holds the parameters of every stage
// on the device of its rank.
type Trainer struct {
	job     Job
	devices []*programs.Device // by rank
	stages  []*stage
}

// stage is one stage on its device.
type stage struct {
	device     *programs.Device
	bySize     map[int]*programs.Stage // by samples of a microbatch
	parameters programs.List
	gradients  programs.List // of the step, summed so far; nil at its start
	updates    *programs.Updates
	state      programs.State
}

// NewTrainer compiles the programs of every stage and makes the parameters.
// Graphs with replicas, and networks whose tied tensors are on several stages,
// are refused. The devices stay the caller's.
func NewTrainer(job Job, devices []*programs.Device) (*Trainer, error) {
	t := &Trainer{job: job, devices: devices}
	if err := t.check(); err != nil {
		return nil, err
	}
	first := 0
	for s, n := range job.Layers {
		made, err := t.newStage(job.Network.Layers[first:first+n], devices[job.Graph.StageRank[s]])
		if err != nil {
			t.Close()
			return nil, fmt.Errorf("stage %d: %w", s, err)
		}
		t.stages = append(t.stages, made)
		first += n
	}
	return t, t.checkTied()
}

// check compares the parts of a job with each other.
func (t *Trainer) check() error {
	layers := 0
	for _, n := range t.job.Layers {
		layers += n
	}
	g := t.job.Graph
	switch {
	case g.Shape.Replicas > 1:
		return errors.New("replicas are not executed yet; use parallel.data = 1")
	case g.Ranks() != len(t.devices):
		return fmt.Errorf("%d devices for a graph of %d ranks", len(t.devices), g.Ranks())
	case len(t.job.Layers) != len(g.StageRank):
		return fmt.Errorf("a split into %d stages for a graph of %d", len(t.job.Layers), len(g.StageRank))
	case layers != len(t.job.Network.Layers):
		return fmt.Errorf("a split of %d layers for a network of %d", layers, len(t.job.Network.Layers))
	case len(t.job.Samples) != g.Shape.Microbatches:
		return fmt.Errorf("%d sizes for %d microbatches", len(t.job.Samples), g.Shape.Microbatches)
	}
	return nil
}

// checkTied refuses a tensor that two stages would change apart.
func (t *Trainer) checkTied() error {
	seen := map[string]bool{}
	for s := range t.stages {
		for _, p := range t.any(s).Parameters() {
			if seen[p.Name] {
				t.Close()
				return fmt.Errorf("%s is tied to a tensor of another stage, which is not executed yet; set tied = false", p.Name)
			}
			seen[p.Name] = true
		}
	}
	return nil
}

func (t *Trainer) newStage(layers []arch.Layer, d *programs.Device) (*stage, error) {
	s := &stage{device: d, bySize: map[int]*programs.Stage{}}
	for _, n := range t.job.Samples {
		if s.bySize[n] != nil {
			continue
		}
		compiled, err := programs.Compile(d.Backend, layers, programs.Options{Samples: n})
		if err != nil {
			s.close()
			return nil, err
		}
		s.bySize[n] = compiled
	}
	compiled := s.bySize[t.job.Samples[0]]
	var err error
	if s.updates, err = programs.NewUpdates(d.Backend, compiled.Parameters(), t.job.Optimizer, false); err == nil {
		s.parameters, err = compiled.Initialize(d, t.job.Seed)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close frees what a stage holds, as far as it has been made.
func (s *stage) close() {
	s.parameters.Release()
	s.gradients.Release()
	s.state.Release()
	if s.updates != nil {
		s.updates.Close()
	}
	for _, compiled := range s.bySize {
		compiled.Close()
	}
}

// Close frees the parameters and programs.
func (t *Trainer) Close() {
	for _, s := range t.stages {
		s.close()
	}
	t.stages = nil
}

// any is a stage's program of some size.
func (t *Trainer) any(s int) *programs.Stage { return t.stages[s].bySize[t.job.Samples[0]] }

// Parameters reads all parameters, by name.
func (t *Trainer) Parameters() (map[string][]float32, error) {
	all := map[string][]float32{}
	for s, made := range t.stages {
		for i, p := range t.any(s).Parameters() {
			values, err := programs.Read[float32](made.parameters[i])
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", p.Name, err)
			}
			all[p.Name] = values
		}
	}
	return all, nil
}

// Step trains on one batch by running the graph. It returns the trace and the
// mean loss before the step. After an error the parameters are of no step.
func (t *Trainer) Step(ctx context.Context, b Batch, o RunOptions) (*schedules.Trace, float64, error) {
	s := &step{Trainer: t, batch: b, slots: make([]slot, len(t.stages)*len(t.job.Samples)), losses: make([]float64, len(t.job.Samples))}
	if err := s.cut(); err != nil {
		return nil, 0, err
	}
	trace, err := Run(ctx, t.job.Graph, s.do, o)
	s.release()
	loss := 0.0
	for _, l := range s.losses {
		loss += l
	}
	return trace, loss / float64(len(b.Targets)), err
}
