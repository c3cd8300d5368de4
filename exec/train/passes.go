package train

import (
	"errors"
	"fmt"

	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/schedules/graph"
)

// A pass is a forward or a backward of a stage on one microbatch, segment by segment.
type pass struct {
	*step
	task  graph.Task
	at    *rankStage
	state *passState
	// parameters and gradients are whole for this pass if the stage is sharded; nil otherwise.
	parameters, gradients backend.Tensors
}

// begin begins the pass of a task. Its parameters must be released.
func (s *step) begin(t graph.Task) (p pass, err error) {
	p = pass{step: s, task: t, at: s.ranks[t.Rank].stages[t.Stage], state: s.state(t, t.Stage)}
	if s.job.Gathers() && s.plan.unitsOf[t.Stage] != nil {
		p.parameters, err = s.pop(s.gathered, t, len(s.plan.unitsOf[t.Stage]))
	}
	return p, err
}

// forward runs F, segment by segment. The first stage takes its input from the batch. The last
// one takes its targets from there, and computes the loss, unless a task of its own does.
func (s *step) forward(t graph.Task) error {
	if t.Stage == 0 {
		if err := s.load(t); err != nil {
			return err
		}
	}
	p, err := s.begin(t)
	if err != nil {
		return err
	}
	defer p.parameters.Release()
	x := p.state
	if s.job.Graph.Stashing {
		x.weights = p.at.rankState.parameters.Retain() // updates make new tensors
	}
	x.saved = make([]*kernels.Saved, len(p.at.segments))
	for k := range p.at.segments {
		if p.program(k).Last() && s.job.LossApart(int(t.Stage)) {
			return nil // a task of its own takes the logits
		}
		if err := p.forwardOne(k); err != nil || x.input == nil {
			return err
		}
	}
	output := x.input
	x.input = nil
	if s.sameRank(t.Stage, t.Stage+1) {
		s.state(t, t.Stage+1).input = output
	} else {
		x.output = output
	}
	return nil
}

// forwardOne runs F of one segment on the input of the pass, which its output replaces. Of the loss
// the output is read, and the input is nil afterwards.
func (p pass) forwardOne(k int) error {
	output, err := p.forwardSegment(k)
	if err != nil {
		return err
	}
	p.state.input.Release()
	if p.state.input = output; p.program(k).Last() {
		p.state.input = nil
		return p.readLoss(output)
	}
	return nil
}

// lossOf computes the loss of a microbatch from the logits that its F has left.
func (s *step) lossOf(t graph.Task) error {
	p := pass{step: s, task: t, at: s.ranks[t.Rank].stages[t.Stage], state: s.state(t, t.Stage)}
	return p.forwardOne(len(p.at.segments) - 1)
}

// load uploads the input of a microbatch for the first stage.
func (s *step) load(t graph.Task) (err error) {
	stage, at := s.ranks[t.Rank].stages[t.Stage], s.inputs[s.index(t)]
	dimensions := s.programs(stage.segments[0], t).InputDimensions()
	s.state(t, t.Stage).input, err = UploadInputs(stage.device, s.batch.Inputs(at[0], at[1]), dimensions)
	return err
}

// program returns the programs of a segment.
func (p pass) program(k int) *kernels.Programs { return p.programs(p.at.segments[k], p.task) }

// pick takes the parameters of a segment: whole ones of a sharded stage, those that the forward
// of the microbatch had, or those of the rank.
func (p pass) pick(k int) backend.Tensors {
	g, from := p.at.segments[k], p.at.rankState.parameters
	switch {
	case p.at.sharded:
		from = p.parameters
	case p.state.weights != nil:
		from = p.state.weights
	}
	return g.withFrozen(g.pick(from), p.at.frozenValues)
}

// forwardSegment runs F of one segment, and returns its output.
func (p pass) forwardSegment(k int) (output *backend.DeviceTensor, err error) {
	program, index := p.program(k), p.index(p.task)
	var targets *backend.DeviceTensor
	if program.Last() {
		at := p.targets[index]
		if targets, err = backend.Upload(p.at.device, p.batch.Targets[at[0]:at[1]], program.Targets()); err != nil {
			return nil, err
		}
		defer targets.Release()
	}
	seed := kernels.MaskSeed{
		Seed: p.job.Seed, Step: p.steps,
		Sample: p.inputs[index][0] / int(p.job.Network.Layers[0].Input.Elements()),
	}
	output, p.state.saved[k], err = program.Forward(p.pick(k), p.state.input, targets, seed)
	if err == nil {
		err = p.capture.keepOutputs(index, p.state.saved[k])
	}
	return output, err
}

// readLoss reads the sum of the losses, and makes the gradient that the backward begins with. It
// is the gradient of the mean over the batch, or over the microbatch if every microbatch makes
// an update of its own. The average over the replicas will divide it by their number.
func (p pass) readLoss(sum *backend.DeviceTensor) error {
	values, err := backend.Read[float32](sum)
	sum.Release()
	if err != nil {
		return err
	}
	loss := float64(values[0])
	if p.losses[p.index(p.task)] = loss; loss-loss != 0 {
		return notFinite(fmt.Sprintf("the loss is %g", loss))
	}
	targets := float64(p.counted) / float64(p.job.Graph.Shape.Replicas)
	if p.job.Graph.Stashing {
		at := p.targets[p.index(p.task)]
		targets = float64(data.Counted(p.batch.Targets[at[0]:at[1]]))
	}
	p.state.outputGradient, err = backend.Upload(p.at.device, meanOver(targets))
	return err
}

// meanOver returns the gradient of a mean over a number of targets with respect to the sum of
// their losses; 0 without targets.
func meanOver(targets float64) []float32 {
	if targets == 0 {
		return []float32{0}
	}
	return []float32{float32(1 / targets)}
}

// backward runs B or I of the segments that belong to the task's part, last first. After the
// first segment the gradient goes to the stage before.
func (s *step) backward(t graph.Task) error {
	p, err := s.begin(t)
	if err != nil {
		return err
	}
	defer p.parameters.Release()
	x, segments := p.state, p.at.segments
	if t.Kind == graph.InputGradient {
		x.work = make([]*kernels.Deferred, len(segments))
	}
	if p.parameters != nil {
		if p.gradients, err = kernels.Zeros(p.at.device, s.plan.wholeTensors(int(t.Stage))); err != nil {
			return err
		}
	}
	for k := len(segments) - 1; k >= 0 && err == nil; k-- {
		if x.saved[k] != nil && s.belongs(t, segments[k]) {
			err = p.backwardSegment(k)
		}
	}
	if p.gradients != nil {
		s.queueGradients(t, p.gradients)
	}
	if x.saved[0] == nil {
		x.weights.Release()
		x.weights = nil
	}
	if err != nil || x.saved[0] != nil || x.outputGradient == nil {
		return err // another part follows, or an earlier part has passed the gradient on
	}
	return p.passBack()
}

// passBack hands the input gradient to the stage before, at once if that is on the same rank. A
// backward in two passes also makes the gradient of the network's input, which is dropped.
func (p pass) passBack() error {
	t, gradient := p.task, p.state.outputGradient
	if t.Stage == 0 {
		if !p.job.Training.TwoPass() {
			return errors.New("the first stage has made an input gradient")
		}
		gradient.Release()
		p.state.outputGradient = nil
		return nil
	}
	p.state.outputGradient = nil
	if p.sameRank(t.Stage, t.Stage-1) {
		p.step.state(t, t.Stage-1).outputGradient = gradient
	} else {
		p.state.inputGradient = gradient
	}
	return nil
}

// belongs reports whether a segment belongs to the part of a backward that a task is. A backward
// that is one task runs all segments, and so does the I of a backward whose W is cut into parts.
func (s *step) belongs(t graph.Task, g *segment) bool {
	return t.Kind == graph.InputGradient || !s.plan.sliced.Has(&t) || g.part == t.Part
}

// backwardSegment runs B or I of one segment, and replaces the gradient of its output by the
// gradient of its input.
func (p pass) backwardSegment(k int) (err error) {
	x, g := p.state, p.at.segments[k]
	saved, given := x.saved[k], x.outputGradient
	x.saved[k], x.outputGradient = nil, nil // used up, also after an error
	defer given.Release()
	if p.program(k).ForwardOnly() {
		saved.Release()
		return nil // nothing below is trained
	}
	if p.task.Kind == graph.InputGradient {
		p.calls[p.task.Rank]++
		x.outputGradient, x.work[k], err = p.program(k).InputGradient(p.pick(k), saved, given)
		return err
	}
	gradients := p.gradients
	if !p.at.sharded {
		gradients = p.at.rankState.gradients
	}
	sums := g.pick(gradients)
	p.calls[p.task.Rank] += p.program(k).GradientCalls()
	x.outputGradient, err = p.program(k).Backward(p.pick(k), saved, given, sums)
	g.put(sums, gradients)
	return err
}

// weightGradient runs W of the segments that belong to the task's part, last first.
func (s *step) weightGradient(t graph.Task) (err error) {
	x, stage := s.state(t, t.Stage), s.ranks[t.Rank].stages[t.Stage]
	for k := len(stage.segments) - 1; k >= 0; k-- {
		g := stage.segments[k]
		if x.work[k] == nil || !s.belongs(t, g) {
			continue
		}
		work, sums := x.work[k], g.pick(stage.gradients)
		x.work[k] = nil
		s.calls[t.Rank]++
		err = s.programs(g, t).WeightGradient(work, sums)
		if g.put(sums, stage.gradients); err != nil {
			return err
		}
	}
	return nil
}
