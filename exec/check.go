package exec

import (
	"context"
	"fmt"
	"slices"
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
func (o MeasureOptions) check(ctx context.Context, job Job, d *programs.Device, source *Source, got *Record) (*Verdict, error) {
	reference := ""
	key := fmt.Sprint(job.Network.Name, job.Batch(), job.Graph.Shape.Replicas, job.Optimizer, job.Seed, o.Data, o.Total())
	if job.Graph.Stashing {
		reference = serialReplay
		key = fmt.Sprint(key, job.Layers, job.Samples)
	}
	want := o.References[key]
	if want == nil {
		var err error
		if want, err = o.reference(ctx, job, d, source); err != nil {
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
	return &Verdict{difference, reference, difference.failures(o.Checks, got.Losses, reference)}, nil
}

func (o MeasureOptions) reference(ctx context.Context, job Job, d *programs.Device, source *Source) (*Record, error) {
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
	trainer, err := NewTrainer(unsplit, []*programs.Device{d})
	if err != nil {
		return nil, fmt.Errorf("the unsplit run: %w", err)
	}
	defer trainer.Close()
	o.Progress = o.steps("unsplit, to compare with: ")
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
		Samples: []int64{j.Batch() * int64(j.Graph.Shape.Replicas)},
	}
	j.Graph, err = wiring.Pipeline{Name: "unsplit", Shape: shape, Order: order, Optimizer: true}.Graph()
	j.Plan, j.Recompute = w.Plan(), programs.SaveAll
	return j, err
}

// failures lists which of the checks fail: the largest absolute differences that
// pass are 1e-5 for weights and gradients, and 1e-4 for output and loss.
func (d Differences) failures(checks []string, losses []float64, reference string) (list []string) {
	if reference == "" {
		reference = "the unsplit run"
	}
	for _, c := range []struct {
		name                  string
		difference, tolerance float64
	}{{CheckWeights, d.Weights, 1e-5}, {CheckOutput, d.Outputs, 1e-4}, {CheckGradients, d.Gradients, 1e-5}, {CheckLoss, d.Loss, 1e-4}} {
		if slices.Contains(checks, c.name) && !(c.difference < c.tolerance) {
			list = append(list, fmt.Sprintf("%s differs by %.3g from %s; %g is allowed", c.name, c.difference, reference, c.tolerance))
		}
	}
	if slices.Contains(checks, CheckGradients) && !d.ReplicasEqual {
		list = append(list, "replicas have different gradients")
	}
	if first, last := losses[0], losses[len(losses)-1]; slices.Contains(checks, CheckLoss) && !(last < first) {
		list = append(list, fmt.Sprintf("the loss went from %.4g to %.4g; a smaller --learning-rate may help", first, last))
	}
	return list
}

// Err joins the failures to an error; nil if all checks passed.
func (v *Verdict) Err() error {
	if v == nil || len(v.Failures) == 0 {
		return nil
	}
	return fmt.Errorf("a check failed: %s", strings.Join(v.Failures, "; "))
}
