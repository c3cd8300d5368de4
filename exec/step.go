package exec

import (
	"context"
	"fmt"

	"psim/exec/programs"
	"psim/schedules"
)

// step is one step of a trainer. Its slots are written by one task and read
// by another that depends on it, so they need no lock.
type step struct {
	*Trainer
	batch  Batch
	slots  []slot    // by stage and microbatch
	losses []float64 // sums, by microbatch

	inputs, targets [][2]int // of every microbatch: from, to in the batch
}

// slot is what a stage has of a microbatch between two tasks.
type slot struct {
	input          *programs.Tensor // until F
	output         *programs.Tensor // from F until it is sent
	saved          *programs.Saved  // from F until B or I
	work           *programs.Work   // from I until W
	outputGradient *programs.Tensor // until B or I
	inputGradient  *programs.Tensor // from B or I until it is sent
}

// cut divides the batch into microbatches, or says that it does not fit.
func (s *step) cut() error {
	samples := 0
	for _, n := range s.job.Samples {
		samples += n
	}
	given := max(len(s.batch.Tokens), len(s.batch.Numbers))
	input := int(s.job.Network.Layers[0].Input.Elements())
	perSample := s.stages[len(s.stages)-1].bySize[s.job.Samples[0]].Targets() / s.job.Samples[0]
	if given != samples*input || len(s.batch.Targets) != samples*perSample {
		return fmt.Errorf("a batch of %d inputs and %d targets for %d samples of %d and %d", given, len(s.batch.Targets), samples, input, perSample)
	}
	from := 0
	for _, n := range s.job.Samples {
		s.inputs = append(s.inputs, [2]int{from * input, (from + n) * input})
		s.targets = append(s.targets, [2]int{from * perSample, (from + n) * perSample})
		from += n
	}
	return nil
}

func (s *step) at(stage, microbatch int32) *slot {
	return &s.slots[int(stage)*len(s.job.Samples)+int(microbatch)]
}

// release frees what an unfinished step has left.
func (s *step) release() {
	for i := range s.slots {
		x := &s.slots[i]
		for _, t := range []*programs.Tensor{x.input, x.output, x.outputGradient, x.inputGradient} {
			t.Release()
		}
		if x.saved != nil {
			x.saved.Release()
		}
		if x.work != nil {
			x.work.Release()
		}
	}
	for _, st := range s.stages {
		st.gradients.Release()
		st.gradients = nil
	}
}

// do performs one task of the graph.
func (s *step) do(_ context.Context, i int32) error {
	t := s.job.Graph.Tasks[i]
	switch t.Kind {
	case schedules.Forward:
		return s.forward(t)
	case schedules.Backward, schedules.InputGradient:
		return s.backward(t)
	case schedules.WeightGradient:
		return s.weightGradient(t)
	case schedules.SendForward:
		x := s.at(t.Stage, t.Microbatch)
		return s.send(&x.output, &s.at(t.Stage+1, t.Microbatch).input, t)
	case schedules.SendBackward:
		x := s.at(t.Stage, t.Microbatch)
		return s.send(&x.inputGradient, &s.at(t.Stage-1, t.Microbatch).outputGradient, t)
	case schedules.Optimizer:
		return s.update(t.Rank)
	}
	return fmt.Errorf("%s is not executed yet", t.Kind)
}

// send copies a tensor to the device of another rank and frees it here.
func (s *step) send(from, to **programs.Tensor, t schedules.Task) error {
	copied, err := (*from).CopyTo(s.devices[t.Peer])
	if err != nil {
		return err
	}
	(*from).Release()
	*from, *to = nil, copied
	return nil
}

// sameRank reports whether two stages share a device, so that no message
// passes between them.
func (s *step) sameRank(a, b int32) bool {
	return s.job.Graph.StageRank[a] == s.job.Graph.StageRank[b]
}

// forward runs F. The first stage takes its input from the batch, the last
// one its targets, and leaves the loss.
func (s *step) forward(t schedules.Task) error {
	x, st := s.at(t.Stage, t.Microbatch), s.stages[t.Stage]
	program := st.bySize[s.job.Samples[t.Microbatch]]
	if t.Stage == 0 {
		if err := s.load(x, program, st.device, t.Microbatch); err != nil {
			return err
		}
	}
	var targets *programs.Tensor
	if program.Last() {
		at := s.targets[t.Microbatch]
		var err error
		if targets, err = programs.Upload(st.device, s.batch.Targets[at[0]:at[1]], program.Targets()); err != nil {
			return err
		}
		defer targets.Release()
	}
	output, saved, err := program.Forward(st.parameters, x.input, targets)
	if err != nil {
		return err
	}
	x.input.Release()
	x.input, x.saved = nil, saved
	if program.Last() {
		return s.loss(x, st.device, output, t.Microbatch)
	}
	if s.sameRank(t.Stage, t.Stage+1) {
		s.at(t.Stage+1, t.Microbatch).input = output
	} else {
		x.output = output
	}
	return nil
}

// load uploads a microbatch's input.
func (s *step) load(x *slot, program *programs.Stage, d *programs.Device, microbatch int32) (err error) {
	at, dimensions := s.inputs[microbatch], program.InputDimensions()
	if s.batch.Tokens != nil {
		x.input, err = programs.Upload(d, s.batch.Tokens[at[0]:at[1]], dimensions...)
	} else {
		x.input, err = programs.Upload(d, s.batch.Numbers[at[0]:at[1]], dimensions...)
	}
	return err
}

// loss reads the sum of the losses, and makes the gradient that the backward
// begins with: that of the mean over the whole batch.
func (s *step) loss(x *slot, d *programs.Device, sum *programs.Tensor, microbatch int32) error {
	defer sum.Release()
	values, err := programs.Read[float32](sum)
	if err != nil {
		return err
	}
	s.losses[microbatch] = float64(values[0])
	x.outputGradient, err = programs.Upload(d, []float32{1 / float32(len(s.batch.Targets))})
	return err
}

// backward runs B or I.
func (s *step) backward(t schedules.Task) error {
	x, st := s.at(t.Stage, t.Microbatch), s.stages[t.Stage]
	program := st.bySize[s.job.Samples[t.Microbatch]]
	saved := x.saved
	x.saved = nil // used up, whatever comes of it
	var gradient *programs.Tensor
	var err error
	if t.Kind == schedules.Backward {
		sum := st.gradients
		st.gradients = nil
		gradient, st.gradients, err = program.Backward(st.parameters, saved, x.outputGradient, sum)
	} else {
		gradient, x.work, err = program.InputGradient(st.parameters, saved, x.outputGradient)
	}
	if err != nil {
		return err
	}
	x.outputGradient.Release()
	x.outputGradient = nil
	switch {
	case t.Stage == 0:
		gradient.Release()
	case s.sameRank(t.Stage, t.Stage-1):
		s.at(t.Stage-1, t.Microbatch).outputGradient = gradient
	default:
		x.inputGradient = gradient
	}
	return nil
}

// weightGradient runs W.
func (s *step) weightGradient(t schedules.Task) error {
	x, st := s.at(t.Stage, t.Microbatch), s.stages[t.Stage]
	work, sum := x.work, st.gradients
	x.work, st.gradients = nil, nil
	var err error
	st.gradients, err = st.bySize[s.job.Samples[t.Microbatch]].WeightGradient(work, sum)
	return err
}

// update takes the optimizer's step on all stages of a rank.
func (s *step) update(rank int32) error {
	for i, st := range s.stages {
		if s.job.Graph.StageRank[i] != rank {
			continue
		}
		gradients := st.gradients
		st.gradients = nil
		if err := st.updates.Step(st.parameters, gradients, &st.state); err != nil {
			return err
		}
	}
	return nil
}
