package exec

import (
	"context"
	"fmt"
	"time"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/programs"
	"psim/schedules/graph"
)

// Evaluate returns the mean loss over the samples that a source holds out: by forward
// passes alone, without dropout, through the same graph on the same ranks. It changes
// nothing that is trained.
func (t *Trainer) Evaluate(ctx context.Context, source *Source, o RunOptions) (float64, error) {
	if err := t.compileStill(); err != nil {
		return 0, err
	}
	gathers := t.forwardGathers()
	sum, counted := 0.0, 0
	for _, b := range source.heldOut() {
		s, err := t.newStep(b)
		if err != nil {
			return 0, err
		}
		s.still = true
		if err = s.join(ctx, &o); err == nil {
			_, err = Run(ctx, t.job.Graph, func(ctx context.Context, i int32) error { return s.evaluate(ctx, i, gathers) }, o)
		}
		s.release()
		if err == nil {
			err = s.conclude(ctx, time.Time{}, nil)
		}
		if err != nil {
			return 0, err
		}
		sum += s.loss() * float64(s.counted)
		counted += s.counted
	}
	return sum / float64(counted), nil
}

// evaluate does what a task does for a forward pass, and nothing for a backward.
func (s *step) evaluate(ctx context.Context, i int32, gathers map[int32]bool) error {
	t := s.job.Graph.Task(i)
	switch {
	case t.Kind == graph.Forward:
		err := s.do(ctx, i)
		s.at(t, t.Stage).releaseSaved()
		return err
	case t.Kind == graph.SendForward, gathers[i]:
		return s.do(ctx, i)
	}
	return nil
}

// forwardGathers finds the tasks that gather parameters for a forward: of those of a
// stage and microbatch the first, after which the backward's come.
func (t *Trainer) forwardGathers() map[int32]bool {
	type place struct {
		rank, stage, microbatch int32
		part                    uint16
	}
	found, seen := map[int32]bool{}, map[place]bool{}
	for i, task := range t.job.Graph.Tasks() {
		if at := (place{task.Rank, task.Stage, task.Microbatch, task.Part}); task.Kind == graph.AllGather && !seen[at] {
			found[i], seen[at] = true, true
		}
	}
	return found
}

// releaseSaved frees what a forward has left for the backward.
func (x *slot) releaseSaved() {
	for _, saved := range x.saved {
		saved.Release()
	}
	x.weights.Release()
	x.outputGradient.Release()
	x.saved, x.weights, x.outputGradient = nil, nil, nil
}

// compileStill compiles the segments that have dropout once more without it.
func (t *Trainer) compileStill() error {
	for _, m := range t.own() {
		for s, st := range m.stages {
			if st == nil {
				continue
			}
			for k, g := range st.segments {
				if g.still != nil {
					continue
				}
				var err error
				if g.still, err = t.cache.still(m.device, g, t.job.Stages[s].Segments[k]); err != nil {
					return fmt.Errorf("stage %d, without dropout: %w", s, err)
				}
			}
		}
	}
	return nil
}

// still returns the programs of a segment without dropout: its own if it has none.
func (c *programCache) still(d *programs.Device, g *segment, planned stages.Segment) (map[int64]*programs.Stage, error) {
	layers, drops := append([]network.Layer{}, planned.Layers...), false
	for i := range layers {
		drops = drops || layers[i].Dropout > 0
		layers[i].Dropout = 0
	}
	if !drops {
		return g.bySize, nil
	}
	planned.Layers = layers
	made, err := c.compiled(d.Backend, planned, true)
	if err != nil {
		return nil, err
	}
	return made.bySize, nil
}
