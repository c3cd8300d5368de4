package measure

import (
	"context"
	"fmt"
	"strings"

	"psim/costmodel/stages"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/exec/train"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// What can be compared with the unsplit run.
const (
	CheckWeights   = "weights"
	CheckOutput    = "output"
	CheckGradients = "grads"
	CheckLoss      = "loss"
)

// CheckNames lists the checks that compare a run with the unsplit run.
func CheckNames() []string { return []string{CheckWeights, CheckOutput, CheckGradients, CheckLoss} }

// A Verdict says by how much a run differs from one that is known to be right.
type Verdict struct {
	train.Differences
	// Reference names the run that is known to be right; "" is the unsplit one.
	Reference string
	// Failures lists the checks that failed, and why.
	Failures []string
}

// References holds the runs to compare with, by a key of everything that determines their
// results.
type References map[string]*train.Record

// serialReplay names the run that a run with stashed weights is compared with. Its result
// depends on how the network is split, so it cannot be compared with the unsplit run.
const serialReplay = "the serial replay"

// check compares a training with the unsplit run or, if weights are stashed, with the serial
// replay of the same versions.
func (r jobRun) check(ctx context.Context, got *train.Record) (*Verdict, error) {
	want, err := r.known(ctx)
	if err != nil {
		return nil, err
	}
	difference, err := got.Difference(want, r.job.Optimizer)
	if err != nil {
		return nil, &run.Error{Err: err}
	}
	c := comparison{Differences: difference, checks: r.Checks, losses: got.Losses}
	if r.job.Graph.Stashing {
		c.reference = serialReplay
	}
	if w := r.world(); w != nil {
		if _, err := w.Broadcast(ctx, w.Next("check"), make([]byte, len(c.exceeded()))); err != nil {
			return nil, err
		}
	}
	if len(c.exceeded()) > 0 {
		if c.first, err = r.firstStep(ctx); err != nil {
			return nil, err
		}
	}
	return &Verdict{difference, c.reference, c.failures()}, nil
}

// known returns the record to compare with, and trains it if it is not among the References.
func (r jobRun) known(ctx context.Context) (*train.Record, error) {
	j := r.job
	key := fmt.Sprint(j.Network.Name, j.Total(), j.Shards, j.Graph.Shape.Replicas, j.Optimizer, j.Seed,
		r.Data, r.Train.Total())
	if j.Graph.Stashing {
		key = fmt.Sprint(key, j.Layers, j.Samples)
	}
	if record := r.References[key]; record != nil {
		return record, nil
	}
	record, err := r.reference(ctx)
	if err == nil && r.References != nil {
		r.References[key] = record
	}
	return record, err
}

// assistCheck does another process's part of the first process's check: the first step again,
// if limits are exceeded.
func (r jobRun) assistCheck(ctx context.Context) error {
	exceeded, err := r.world().Broadcast(ctx, r.world().Next("check"), nil)
	if err == nil && len(exceeded) > 0 {
		_, err = r.onlyFirstStep().train(ctx, againText)
	}
	return err
}

// againText begins the progress of the first step that is trained again.
const againText = "again, to see whether rounding has grown: "

// onlyFirstStep returns a run of the first step, which is recorded.
func (r jobRun) onlyFirstStep() jobRun {
	r.Train.Warmup, r.Train.Steps, r.Train.Epochs = 0, 0, 0
	return r
}

// firstStep trains the first step alone and compares it with the reference's. A wrong sum shows
// there, while rounding grows with the steps.
func (r jobRun) firstStep(ctx context.Context) (*train.Differences, error) {
	first := r.onlyFirstStep()
	got, err := first.train(ctx, againText)
	if err != nil {
		return nil, err
	}
	want, err := first.reference(ctx)
	if err != nil {
		return nil, err
	}
	difference, err := got.Difference(want, r.job.Optimizer)
	return &difference, run.Failed(err)
}

// reference trains the run that a run is compared with, in this process alone.
func (r jobRun) reference(ctx context.Context) (*train.Record, error) {
	r.Train.Run.World = nil
	if r.job.Graph.Stashing {
		r.Train.Progress = r.steps("replay, to compare with: ")
		replay := train.Replay{Job: r.job, Device: r.devices[0], Batch: r.source.Batch, Options: r.Train}
		record, err := replay.Run(ctx)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%s: %w", serialReplay, err)
		}
		return record, run.Failed(err)
	}
	var err error
	if r.job, err = unsplit(r.job); err != nil {
		return nil, err
	}
	r.devices = r.devices[:1]
	record, err := r.train(ctx, "unsplit, to compare with: ")
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the unsplit run: %w", err)
	}
	return record, err
}

// train makes the record of the job. Its progress begins with a text.
func (r jobRun) train(ctx context.Context, text string) (*train.Record, error) {
	trainer, err := train.NewTrainer(r.job, r.devices)
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	r.Train.Progress, r.Train.Gradients = r.steps(text), false
	trained, err := trainer.Train(ctx, r.source, r.Train)
	return trained.Record, run.Failed(err)
}

// unsplit returns the job on one device, with the whole batch at once.
func unsplit(j train.Job) (train.Job, error) {
	shape := graph.Shape{Ranks: 1, Microbatches: 1}
	gpipe, err := schedules.Find("gpipe")
	if err != nil {
		return j, err
	}
	order, err := gpipe.Order(shape, nil)
	if err != nil {
		return j, err
	}
	w := stages.Workload{
		Network: j.Network, Training: j.Training, Layers: []int{len(j.Network.Layers)},
		Placement: graph.InOrder(1), Samples: []int64{j.Total()},
	}
	j.Graph, err = wiring.Pipeline{Name: "unsplit", Shape: shape, Order: order, Optimizer: true}.Graph()
	j.Staged, j.Recompute = w.Staged(), kernels.SaveAll
	return j, err
}

// Err returns the failures as an error; nil if all checks passed.
func (v *Verdict) Err() error {
	if v == nil || len(v.Failures) == 0 {
		return nil
	}
	return fmt.Errorf("a check failed: %s", strings.Join(v.Failures, "; "))
}
