package programs

import "fmt"

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
	spend := func(name string) bool { return saved.has(name) || isSum(name) }
	results, err := s.run(s.backward, outputGradient, given, saved.draw, spend)
	if err != nil {
		return nil, err
	}
	sums.replace(results[1:])
	return results[0], nil
}

// replace puts other tensors in the places of a list's.
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
	spend := func(name string) bool { return saved.has(name) && !later[name] }
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
	given := map[string]*Tensor{}
	for name, t := range work.values {
		given[name] = t
	}
	s.give(given, earlyKey, work.gradients)
	s.give(given, sumKey, sums)
	results, err := s.weightGradient.run(work.device, func(name string) *Tensor { return given[name] }, all)
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
	for name, t := range others {
		given[name] = t
	}
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
	return run(p, at, given, func(name string) bool { return spend(name) || isMask(name) })
}

// run runs a program on the device of one of its inputs.
func run(p *program, at *Tensor, given map[string]*Tensor, spend func(string) bool) ([]*Tensor, error) {
	if at == nil {
		return nil, fmt.Errorf("%s: no input", p.name)
	}
	return p.run(at.device, func(name string) *Tensor { return given[name] }, spend)
}

// has reports whether an input of a program is one of the held tensors.
func (h *held) has(name string) bool {
	return h.values[name] != nil
}

func nothing(string) bool { return false }
