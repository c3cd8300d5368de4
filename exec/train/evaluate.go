package train

import (
	"context"
	"fmt"
	"time"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/schedules/graph"
)

// Evaluate returns the mean loss over the samples that a source holds out. It runs only forward
// passes, without dropout, through the same graph on the same ranks, and does not change what
// is trained.
func (t *Trainer) Evaluate(ctx context.Context, source *data.Source, o run.Options) (float64, error) {
	if err := t.compileWithoutDropout(); err != nil {
		return 0, err
	}
	gathers := t.forwardGathers()
	sum, counted := 0.0, 0
	for _, b := range source.HeldOut() {
		s, err := t.newStep(b)
		if err != nil {
			return 0, err
		}
		s.withoutDropout = true
		if err = s.joinProcesses(ctx, &o); err == nil {
			evaluate := func(ctx context.Context, i int32) error { return s.evaluate(ctx, i, gathers) }
			_, err = run.Graph(ctx, t.job.Graph, evaluate, o)
		}
		s.release()
		if err == nil {
			err = s.gatherReports(ctx, time.Time{}, nil)
		}
		if err != nil {
			return 0, err
		}
		sum += s.loss() * float64(s.counted)
		counted += s.counted
	}
	return sum / float64(counted), nil
}

// evaluate performs a task if it belongs to a forward pass.
func (s *step) evaluate(ctx context.Context, i int32, gathers map[int32]bool) error {
	t := s.job.Graph.Task(i)
	switch {
	case t.Kind == graph.Forward, t.Kind == graph.Loss:
		err := s.do(ctx, i)
		if t.Kind == graph.Loss || !s.job.LossApart(int(t.Stage)) {
			s.state(t, t.Stage).releaseSaved()
		}
		return err
	case t.Kind == graph.SendForward, gathers[i]:
		return s.do(ctx, i)
	}
	return nil
}

// forwardGathers finds the tasks that gather parameters for a forward: the first of every stage
// and microbatch, before those of the backward.
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

// releaseSaved frees the tensors that a forward has saved for the backward.
func (x *passState) releaseSaved() {
	for _, saved := range x.saved {
		saved.Release()
	}
	x.weights.Release()
	x.outputGradient.Release()
	x.saved, x.weights, x.outputGradient = nil, nil, nil
}

// compileWithoutDropout compiles the segments with dropout once more without it.
func (t *Trainer) compileWithoutDropout() error {
	for _, m := range t.ownRanks() {
		for s, st := range m.stages {
			if st == nil {
				continue
			}
			for k, g := range st.segments {
				if g.withoutDropout != nil {
					continue
				}
				planned, err := t.job.Stages[s].Segments[k], error(nil)
				if g.withoutDropout, err = t.cache.withoutDropout(m.device, g, planned); err != nil {
					return fmt.Errorf("stage %d, without dropout: %w", s, err)
				}
			}
		}
	}
	return nil
}

// withoutDropout returns the programs of a segment without dropout: its own if the segment does not drop.
func (c *programCache) withoutDropout(
	d *backend.LocalDevice, g *segment, planned stages.Segment,
) (map[int64]*kernels.Programs, error) {
	layers, drops := append([]network.Layer{}, planned.Layers...), false
	for i := range layers {
		drops = drops || layers[i].Dropout > 0
		layers[i].Dropout = 0
	}
	if !drops {
		return g.bySize, nil
	}
	planned.Layers = layers
	made, err := c.compiled(d.Backend, planned, segmentKey{withoutDropout: true, needs: kernels.NoBackward})
	if err != nil {
		return nil, err
	}
	return made.bySize, nil
}
