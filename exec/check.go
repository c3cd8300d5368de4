package exec

import (
	"context"
	"fmt"
	"strings"

	"psim/costmodel/stages"
	"psim/exec/programs"
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

// CheckNames lists what can be compared with the unsplit run.
func CheckNames() []string { return []string{CheckWeights, CheckOutput, CheckGradients, CheckLoss} }

// A Verdict says by how much a run differs from one that is known to be right.
type Verdict struct {
	Differences
	// Reference is that run; "" is the unsplit one.
	Reference string
	// Failures lists what of the checks failed.
	Failures []string
}

// References holds the runs that others are compared with, by what decides their
// result.
type References map[string]*Record

// serialReplay names what stashed weights are compared with: what they train depends
// on how the network is split.
const serialReplay = "the serial replay"

// check compares what was trained with the unsplit run, or where weights are
// stashed, with the serial replay of the same versions.
func (o MeasureOptions) check(ctx context.Context, job Job, devices []*programs.Device, source *Source, got *Record) (*Verdict, error) {
	reference := ""
	key := fmt.Sprint(job.Network.Name, job.Total(), job.Shards, job.Graph.Shape.Replicas, job.Optimizer, job.Seed, o.Data, o.Total())
	if job.Graph.Stashing {
		reference = serialReplay
		key = fmt.Sprint(key, job.Layers, job.Samples)
	}
	want := o.References[key]
	if want == nil {
		var err error
		if want, err = o.reference(ctx, job, devices[0], source); err != nil {
			return nil, err
		}
		if o.References != nil {
			o.References[key] = want
		}
	}
	difference, err := got.Difference(want)
	if err != nil {
		return nil, &RunError{err}
	}
	c := comparison{Differences: difference, checks: o.Checks, reference: reference, losses: got.Losses}
	if o.World != nil {
		if _, err := o.World.Broadcast(ctx, o.World.Next("check"), make([]byte, len(c.exceeded()))); err != nil {
			return nil, err
		}
	}
	if len(c.exceeded()) > 0 {
		if c.first, err = o.firstStep(ctx, job, devices, source); err != nil {
			return nil, err
		}
	}
	return &Verdict{difference, reference, c.failures()}, nil
}

// assist does a process's part of the first's check: the first step again, if limits are
// exceeded.
func (o MeasureOptions) assist(ctx context.Context, job Job, devices []*programs.Device, source *Source) error {
	exceeded, err := o.World.Broadcast(ctx, o.World.Next("check"), nil)
	if err == nil && len(exceeded) > 0 {
		_, err = o.again(ctx, job, devices, source)
	}
	return err
}

// again trains the first step alone, again.
func (o MeasureOptions) again(ctx context.Context, job Job, devices []*programs.Device, source *Source) (*Record, error) {
	o.Warmup, o.Steps, o.Epochs = 0, 0, 0 // which leaves the one that is recorded
	return o.train(ctx, job, devices, source, "again, to see whether rounding has grown: ")
}

// firstStep trains the first step alone and compares it with the reference's: a wrong sum
// shows there, while rounding grows with the steps.
func (o MeasureOptions) firstStep(ctx context.Context, job Job, devices []*programs.Device, source *Source) (*Differences, error) {
	got, err := o.again(ctx, job, devices, source)
	if err != nil {
		return nil, err
	}
	o.Warmup, o.Steps, o.Epochs = 0, 0, 0
	want, err := o.reference(ctx, job, devices[0], source)
	if err != nil {
		return nil, err
	}
	difference, err := got.Difference(want)
	return &difference, duringRun(err)
}

// reference trains what a run is compared with, in this process alone.
func (o MeasureOptions) reference(ctx context.Context, job Job, d *programs.Device, source *Source) (*Record, error) {
	o.World = nil
	if job.Graph.Stashing {
		o.Progress = o.steps("replay, to compare with: ")
		record, err := Replay(ctx, job, d, source.Batch, o.TrainOptions)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%s: %w", serialReplay, err)
		}
		return record, duringRun(err)
	}
	unsplit, err := job.unsplit()
	if err != nil {
		return nil, err
	}
	record, err := o.train(ctx, unsplit, []*programs.Device{d}, source, "unsplit, to compare with: ")
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the unsplit run: %w", err)
	}
	return record, err
}

// train makes the record of a job.
func (o MeasureOptions) train(ctx context.Context, job Job, devices []*programs.Device, source *Source, of string) (*Record, error) {
	trainer, err := NewTrainer(job, devices)
	if err != nil {
		return nil, err
	}
	defer trainer.Close()
	o.Progress, o.Gradients = o.steps(of), false
	training, err := trainer.Train(ctx, source, o.TrainOptions)
	return training.Record, duringRun(err)
}

// unsplit returns the job on one device, a batch at a time.
func (j Job) unsplit() (Job, error) {
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
		Network: j.Network, Training: j.Training, Layers: []int{len(j.Network.Layers)}, Placement: graph.InOrder(1),
		Samples: []int64{j.Total()},
	}
	j.Graph, err = wiring.Pipeline{Name: "unsplit", Shape: shape, Order: order, Optimizer: true}.Graph()
	j.Staged, j.Recompute = w.Staged(), programs.SaveAll
	return j, err
}

// Err joins the failures to an error; nil if all checks passed.
func (v *Verdict) Err() error {
	if v == nil || len(v.Failures) == 0 {
		return nil
	}
	return fmt.Errorf("a check failed: %s", strings.Join(v.Failures, "; "))
}
