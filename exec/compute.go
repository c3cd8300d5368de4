package exec

import (
	"errors"
	"fmt"

	"psim/exec/programs"
	"psim/schedules/graph"
)

// forward runs F, segment by segment. The first stage takes its input from the
// batch, the last one its targets, and leaves the loss.
func (s *step) forward(t graph.Task) error {
	x, st := s.at(t, t.Stage), s.stage(t)
	if t.Stage == 0 {
		if err := s.load(x, st, t); err != nil {
			return err
		}
	}
	parameters, err := s.parameters(t)
	if err != nil {
		return err
	}
	defer parameters.Release()
	if s.job.Graph.Stashing {
		x.weights = st.member.parameters.Retain() // as they are now: updates leave them alone
	}
	x.saved = make([]*programs.Saved, len(st.segments))
	for k, g := range st.segments {
		output, err := s.forwardSegment(x, st, k, t, parameters)
		if err != nil {
			return err
		}
		x.input.Release()
		x.input = output
		if program := s.program(g, t); program.Last() {
			x.input = nil
			return s.lose(x, st, output, t)
		}
	}
	output := x.input
	x.input = nil
	if s.sameRank(t.Stage, t.Stage+1) {
		s.at(t, t.Stage+1).input = output
	} else {
		x.output = output
	}
	return nil
}

// parameters returns those of a sharded stage, which the task uses up; nil for
// others.
func (s *step) parameters(t graph.Task) (programs.List, error) {
	if !s.job.Gathers() || s.plan.units[t.Stage] == nil {
		return nil, nil
	}
	return s.pop(s.gathered, t, len(s.plan.units[t.Stage]))
}

// pick takes a segment's parameters: of a sharded stage, those that the
// microbatch's forward had, or the member's.
func (st *stage) pick(g *segment, whole programs.List, x *slot) programs.List {
	switch {
	case st.sharded:
		return g.pick(whole)
	case x.weights != nil:
		return g.pick(x.weights)
	}
	return g.pick(st.member.parameters)
}

func (s *step) forwardSegment(x *slot, st *stage, k int, t graph.Task, parameters programs.List) (output *programs.Tensor, err error) {
	program := s.program(st.segments[k], t)
	var targets *programs.Tensor
	if program.Last() {
		at := s.targets[s.piece(t)]
		if targets, err = programs.Upload(st.device, s.batch.Targets[at[0]:at[1]], program.Targets()); err != nil {
			return nil, err
		}
		defer targets.Release()
	}
	output, x.saved[k], err = program.Forward(st.pick(st.segments[k], parameters, x), x.input, targets, s.draw(t))
	if err == nil {
		err = s.keep.keepOutputs(s.piece(t), x.saved[k])
	}
	return output, err
}

// draw says where a microbatch's dropout masks come from.
func (s *step) draw(t graph.Task) programs.Draw {
	first := s.inputs[s.piece(t)][0] / int(s.job.Network.Layers[0].Input.Elements())
	return programs.Draw{Seed: s.job.Seed, Step: s.steps, Sample: first}
}

func (s *step) load(x *slot, st *stage, t graph.Task) (err error) {
	at := s.inputs[s.piece(t)]
	x.input, err = s.batch.upload(st.device, at[0], at[1], s.program(st.segments[0], t).InputDimensions())
	return err
}

// lose reads the sum of the losses, and makes the gradient that the backward
// begins with: that of the mean over the batch, of which the average over the
// replicas will leave one part for each of them, or where every microbatch makes an
// update of its own, over the microbatch.
func (s *step) lose(x *slot, st *stage, sum *programs.Tensor, t graph.Task) error {
	values, err := programs.Read[float32](sum)
	sum.Release()
	if err != nil {
		return err
	}
	loss := float64(values[0])
	if s.losses[s.piece(t)] = loss; loss-loss != 0 {
		return notFinite(fmt.Sprintf("the loss is %g", loss))
	}
	targets := float64(s.counted) / float64(s.job.Graph.Shape.Replicas)
	if s.job.Graph.Stashing {
		at := s.targets[s.piece(t)]
		targets = float64(counted(s.batch.Targets[at[0]:at[1]]))
	}
	x.outputGradient, err = programs.Upload(st.device, meanOver(targets))
	return err
}

// backward runs B or I of the segments that belong to the task's part, last
// first. After the first segment the gradient goes to the stage before.
func (s *step) backward(t graph.Task) error {
	x, st := s.at(t, t.Stage), s.stage(t)
	if t.Kind == graph.InputGradient {
		x.work = make([]*programs.Work, len(st.segments))
	}
	parameters, err := s.parameters(t)
	if err != nil {
		return err
	}
	defer parameters.Release()
	var gradients programs.List
	if parameters != nil {
		if gradients, err = programs.Zeros(st.device, s.plan.wholeTensors(int(t.Stage))); err != nil {
			return err
		}
	}
	for k := len(st.segments) - 1; k >= 0 && err == nil; k-- {
		if x.saved[k] != nil && s.runs(t, st.segments[k]) {
			err = s.backwardSegment(x, st, k, t, parameters, gradients)
		}
	}
	if gradients != nil {
		s.queueGradients(t, gradients)
	}
	if x.saved[0] == nil {
		x.weights.Release()
		x.weights = nil
	}
	if err != nil || x.saved[0] != nil || x.outputGradient == nil {
		return err // without one, another part follows, or nothing was left for this one
	}
	return s.passBack(x, t)
}

// passBack hands the input gradient to the stage before: at once if it is on the
// same rank. That of the network's input, which a backward in two passes makes, is
// nobody's.
func (s *step) passBack(x *slot, t graph.Task) error {
	if t.Stage == 0 {
		if !s.job.Training.TwoPass() {
			return errors.New("the first stage has made an input gradient")
		}
		x.outputGradient.Release()
		x.outputGradient = nil
		return nil
	}
	gradient := x.outputGradient
	x.outputGradient = nil
	if s.sameRank(t.Stage, t.Stage-1) {
		s.at(t, t.Stage-1).outputGradient = gradient
	} else {
		x.inputGradient = gradient
	}
	return nil
}

// runs reports whether a segment belongs to the part of a backward that a task
// is. A backward that is one task runs them all, and so does the I of a backward
// whose W is cut into parts.
func (s *step) runs(t graph.Task, g *segment) bool {
	return t.Kind == graph.InputGradient || !s.plan.sliced.Has(&t) || g.part == t.Part
}

// backwardSegment runs B or I of one segment, and replaces the gradient of its
// output by that of its input.
func (s *step) backwardSegment(x *slot, st *stage, k int, t graph.Task, parameters, gradients programs.List) (err error) {
	g, saved := st.segments[k], x.saved[k]
	x.saved[k] = nil // used up, whatever comes of it
	given := x.outputGradient
	defer given.Release()
	x.outputGradient = nil
	if t.Kind == graph.InputGradient {
		s.calls[t.Rank]++
		x.outputGradient, x.work[k], err = s.program(g, t).InputGradient(st.pick(g, parameters, x), saved, given)
		return err
	}
	if !st.sharded {
		gradients = st.gradients
	}
	sums := g.pick(gradients)
	s.calls[t.Rank] += s.program(g, t).GradientCalls()
	x.outputGradient, err = s.program(g, t).Backward(st.pick(g, parameters, x), saved, given, sums)
	g.put(sums, gradients)
	return err
}

func (s *step) weightGradient(t graph.Task) (err error) {
	x, st := s.at(t, t.Stage), s.stage(t)
	for k := len(st.segments) - 1; k >= 0; k-- {
		g := st.segments[k]
		if x.work[k] == nil || !s.runs(t, g) {
			continue
		}
		work, sums := x.work[k], g.pick(st.gradients)
		x.work[k] = nil
		s.calls[t.Rank]++
		err = s.program(g, t).WeightGradient(work, sums)
		if g.put(sums, st.gradients); err != nil {
			return err
		}
	}
	return nil
}
