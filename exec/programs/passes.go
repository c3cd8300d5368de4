package programs

import (
	"fmt"
	"maps"
	"strings"
)

// Forward runs F on a microbatch. The last stage needs targets, others none,
// and its output is the sum of the losses. Saved holds input and targets as far
// as the backward needs them. A network without dropout draws nothing.
func (s *Stage) Forward(parameters List, input, targets *Tensor, draw Draw) (output *Tensor, saved *Saved, err error) {
	given, err := s.inputs(parameters, map[string]*Tensor{inputKey: input, targetsKey: targets})
	if err != nil {
		return nil, nil, err
	}
	results, err := s.run(s.forward, input, given, draw, nothing)
	if err != nil {
		return nil, nil, err
	}
	return results[0], &Saved{take(input.device, s.savedSlots, results[1:]), draw}, nil
}

// Backward runs B: all of a microbatch's backward. It uses up saved, and adds
// the gradients of the parameters to sums, whose tensors it replaces. The input
// gradient is nil where the stage's input is the network's.
func (s *Stage) Backward(parameters List, saved *Saved, outputGradient *Tensor, sums List) (inputGradient *Tensor, err error) {
	defer saved.Release()
	given, err := s.inputs(parameters, saved.values)
	if err != nil {
		return nil, err
	}
	given[outputGradientKey] = outputGradient
	s.give(given, sumKey, sums)
	spend := func(name string) bool { return saved.values[name] != nil || isSum(name) }
	if s.options.TwoPass {
		results, err := s.run(s.toParameters, outputGradient, given, saved.draw, isSum)
		if err != nil {
			return nil, err
		}
		sums.replace(results)
		if results, err = s.run(s.toInput, outputGradient, given, saved.draw, spend); err != nil {
			return nil, err
		}
		return results[0], nil
	}
	results, err := s.run(s.backward, outputGradient, given, saved.draw, spend)
	if err != nil {
		return nil, err
	}
	sums.replace(results[1:])
	return results[0], nil
}

// GradientCalls is how many programs Backward runs: as often would PyTorch's autograd be
// called.
func (s *Stage) GradientCalls() (calls int) {
	for _, p := range []*program{s.backward, s.toParameters, s.toInput} {
		if p != nil && p.outputs > 0 {
			calls++
		}
	}
	return calls
}

func (l List) replace(by []*Tensor) {
	for i, t := range by {
		l[i].Release()
		l[i] = t
	}
}

// give adds a list of tensors to what a program is given, by parameter.
func (s *Stage) give(given map[string]*Tensor, key string, list List) {
	for i, t := range list {
		given[key+s.parameters[i].Name] = t
	}
}

// InputGradient runs I: the input gradient, and what is left for W. It uses up
// saved, of which Work takes what W needs.
func (s *Stage) InputGradient(parameters List, saved *Saved, outputGradient *Tensor) (inputGradient *Tensor, work *Work, err error) {
	defer saved.Release()
	given, err := s.inputs(parameters, saved.values)
	if err != nil {
		return nil, nil, err
	}
	given[outputGradientKey] = outputGradient
	later := map[string]bool{}
	for _, slot := range s.passedOn {
		later[slot.name] = true
	}
	spend := func(name string) bool { return saved.values[name] != nil && !later[name] }
	results, err := s.run(s.inputGradient, outputGradient, given, saved.draw, spend)
	if err != nil {
		return nil, nil, err
	}
	split := 1 + len(s.workSlots)
	work = &Work{held: take(outputGradient.device, s.workSlots, results[1:split]), gradients: results[split:]}
	for _, slot := range s.passedOn {
		work.slots = append(work.slots[:len(work.slots):len(work.slots)], slot)
		work.values[slot.name] = saved.values[slot.name].Retain()
	}
	return results[0], work, nil
}

// WeightGradient runs W: it adds the gradients of the parameters to sums, as
// Backward does. It uses up work.
func (s *Stage) WeightGradient(work *Work, sums List) error {
	defer work.Release()
	given := maps.Clone(work.values)
	s.give(given, earlyKey, work.gradients)
	s.give(given, sumKey, sums)
	results, err := s.weightGradient.run(work.device, given, all)
	if err != nil {
		return err
	}
	sums.replace(results)
	return nil
}

// inputs adds the parameters to what a program is given by name.
func (s *Stage) inputs(parameters List, others map[string]*Tensor) (map[string]*Tensor, error) {
	if len(parameters) != len(s.parameters) {
		return nil, fmt.Errorf("%s: %d parameters, not %d", s.name(), len(parameters), len(s.parameters))
	}
	given := make(map[string]*Tensor, len(parameters)+len(others)+1)
	maps.Copy(given, others)
	for i, t := range parameters {
		given[parameterKey+s.parameters[i].Name] = t
	}
	return given, nil
}

// run runs a program of the stage on the device of one of its inputs, with the masks
// that it takes.
func (s *Stage) run(p *program, at *Tensor, given map[string]*Tensor, draw Draw, spend func(string) bool) ([]*Tensor, error) {
	if at == nil {
		return nil, fmt.Errorf("%s: no input", p.name)
	}
	masks, err := s.draw(at.device, p, draw, given)
	if err != nil {
		return nil, err
	}
	defer masks.Release()
	return p.run(at.device, given, func(name string) bool { return spend(name) || isMask(name) })
}

func nothing(string) bool { return false }

// Saved is what Forward holds for the backward passes of one microbatch.
type Saved struct {
	held
	draw Draw // for a forward that the backward repeats
}

// Work is what InputGradient leaves to WeightGradient.
type Work struct {
	held
	gradients List // made already, of norms; others nil
}

// Outputs is what the network makes of the microbatch before its loss: the
// logarithms of the classes' (tokens') probabilities, a row for each target. It
// is nil except on the last stage and stays Saved's.
func (s *Saved) Outputs() *Tensor {
	for name, t := range s.values {
		if strings.HasSuffix(name, "/"+logProbabilities) {
			return t
		}
	}
	return nil
}

// held keeps a set of tensors between two passes.
type held struct {
	device *Device
	slots  []slot
	values map[string]*Tensor
}

func (h *held) release() {
	for _, t := range h.values {
		t.Release()
	}
	h.slots, h.values = nil, nil
}

// take holds the results of a program as the given slots.
func take(d *Device, slots []slot, results []*Tensor) held {
	h := held{device: d, slots: slots, values: map[string]*Tensor{}}
	for i, s := range slots {
		h.values[s.name] = results[i]
	}
	return h
}

// Release frees the tensors of a microbatch whose backward will not run. It does
// nothing to nil.
func (s *Saved) Release() {
	if s != nil {
		s.held.release()
	}
}

// Release frees what was left to WeightGradient. It does nothing to nil.
func (w *Work) Release() {
	if w != nil {
		w.held.release()
		w.gradients.Release()
		w.gradients = nil
	}
}
