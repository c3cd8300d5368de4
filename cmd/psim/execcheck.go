package main

import (
	"cmp"
	"context"
	"fmt"

	"psim/exec"
	"psim/exec/programs"
	"psim/reports"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// The largest absolute differences from the unsplit run that pass.
const (
	weightsTolerance   = 1e-5
	gradientsTolerance = 1e-5
	outputTolerance    = 1e-4
	lossTolerance      = 1e-4
)

// check holds what was trained against the unsplit run, which is trained once
// for all modes that it serves. Where weights are stashed, whose training depends
// on how the network is split, it is the serial replay of the same versions.
func (s *session) check(ctx context.Context, e *executed, devices []*programs.Device, source *exec.Source, o exec.TrainOptions) error {
	if !o.Record {
		return nil
	}
	key := fmt.Sprint(e.plan.Workload.Network.Name, e.plan.Samples, e.plan.Graph.Shape.Replicas, o.Total())
	reference := s.trainUnsplit
	if e.plan.Graph.Stashing {
		key = fmt.Sprint(key, e.plan.Workload.Layers, e.plan.Workload.Samples)
		reference = s.replay
	}
	want := s.unsplit[key]
	if want == nil {
		var err error
		if want, err = reference(ctx, e, devices, source, o); err != nil {
			return err
		}
		if s.unsplit == nil {
			s.unsplit = map[string]*exec.Record{}
		}
		s.unsplit[key] = want
	}
	d, err := e.training.Record.Difference(want)
	if err != nil {
		return failure{err}
	}
	e.checks, e.failures = s.verdict(d, e.training.Record.Losses, e.reference())
	return nil
}

// reference names what a mode is compared with, if it is not the unsplit run.
func (e *executed) reference() string {
	if e.plan.Graph.Stashing {
		return "the serial replay"
	}
	return ""
}

// replay trains the microbatches one after another on one device, with the
// versions of the weights that the pipeline's stages have.
func (s *session) replay(ctx context.Context, e *executed, devices []*programs.Device, source *exec.Source, o exec.TrainOptions) (*exec.Record, error) {
	o.Progress = func(step, of int) { s.progress.say("replay, to compare with: step %d of %d", step+1, of) }
	record, err := exec.Replay(ctx, e.job(s.flags), devices[0], source.Batch, o)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("the serial replay: %w", err)
	}
	return record, failed(err)
}

// trainUnsplit trains the whole network on one device, a batch at a time.
func (s *session) trainUnsplit(ctx context.Context, e *executed, devices []*programs.Device, source *exec.Source, o exec.TrainOptions) (*exec.Record, error) {
	job := e.job(s.flags)
	shape := graph.Shape{Ranks: 1, Microbatches: 1}
	gpipe, err := schedules.Find("gpipe")
	if err != nil {
		return nil, err
	}
	order, err := gpipe.Order(shape, nil)
	if err != nil {
		return nil, err
	}
	if job.Graph, err = (wiring.Pipeline{Name: "unsplit", Shape: shape, Order: order, Optimizer: true}).Graph(); err != nil {
		return nil, err
	}
	job.Layers, job.Samples = []int{len(job.Network.Layers)}, []int{int(e.plan.Samples)}
	job.Recompute, job.PerLayer = programs.SaveAll, false
	trainer, err := exec.NewTrainer(job, devices)
	if err != nil {
		return nil, fmt.Errorf("the unsplit run: %w", err)
	}
	defer trainer.Close()
	o.Progress = func(step, of int) { s.progress.say("unsplit, to compare with: step %d of %d", step+1, of) }
	training, err := trainer.Train(ctx, source, o)
	if err != nil {
		return nil, failed(err)
	}
	return training.Record, nil
}

// verdict judges what the flags ask for.
func (s *session) verdict(d exec.Differences, losses []float64, reference string) (c *reports.Checks, failures []string) {
	c = &reports.Checks{Reference: reference}
	judge := func(name string, into **float64, difference, tolerance float64) {
		if !s.flags.checks(name) {
			return
		}
		*into = &difference
		if !(difference < tolerance) {
			failures = append(failures, fmt.Sprintf("%s differs by %.3g from %s; %g is allowed", name, difference, cmp.Or(reference, "the unsplit run"), tolerance))
		}
	}
	judge("weights", &c.Weights, d.Weights, weightsTolerance)
	judge("output", &c.Outputs, d.Outputs, outputTolerance)
	judge("grads", &c.Gradients, d.Gradients, gradientsTolerance)
	judge("loss", &c.LossDifference, d.Loss, lossTolerance)
	if s.flags.checks("grads") && !d.ReplicasEqual {
		failures = append(failures, "replicas have different gradients")
	}
	if s.flags.checks("loss") {
		first, last := losses[0], losses[len(losses)-1]
		c.LossFirst, c.LossLast = &first, &last
		if !(last < first) {
			failures = append(failures, fmt.Sprintf("the loss went from %.4g to %.4g; a smaller --learning-rate may help", first, last))
		}
	}
	c.Passed = len(failures) == 0
	return c, failures
}
