package kernels

import (
	"fmt"
	"maps"
	"strings"

	"psim/exec/backend"
)

// Forward runs F on a microbatch. Only the last stage takes targets; its output is the sum of
// the losses. Saved holds the input and the targets if the backward needs them. A network
// without dropout ignores the seed.
func (s *Programs) Forward(
	parameters backend.Tensors, input, targets *backend.DeviceTensor, seed MaskSeed,
) (output *backend.DeviceTensor, saved *Saved, err error) {
	given, err := s.inputs(parameters, backend.NamedTensors{inputKey: input, targetsKey: targets})
	if err != nil {
		return nil, nil, err
	}
	results, err := s.run(input, call{program: s.forward, given: given, seed: seed})
	if err != nil {
		return nil, nil, err
	}
	return results[0], &Saved{holdResults(input.Device(), s.savedSlots, results[1:]), seed}, nil
}

// Backward runs B: the whole backward of a microbatch. It uses up saved, and adds the gradients
// of the parameters to sums, whose tensors it replaces. The input gradient is nil if the
// stage's input is the network's.
func (s *Programs) Backward(
	parameters backend.Tensors, saved *Saved, outputGradient *backend.DeviceTensor, sums backend.Tensors,
) (inputGradient *backend.DeviceTensor, err error) {
	defer saved.Release()
	given, err := s.inputs(parameters, saved.values)
	if err != nil {
		return nil, err
	}
	given[outputGradientKey] = outputGradient
	s.addByName(given, sumKey, sums)
	spend := func(name string) bool { return saved.values[name] != nil || isSum(name) }
	if s.options.TwoPass {
		results, err := s.run(outputGradient, call{s.toParameters, given, saved.seed, isSum})
		if err != nil {
			return nil, err
		}
		replace(sums, results)
		if results, err = s.run(outputGradient, call{s.toInput, given, saved.seed, spend}); err != nil {
			return nil, err
		}
		return results[0], nil
	}
	results, err := s.run(outputGradient, call{s.backward, given, saved.seed, spend})
	if err != nil {
		return nil, err
	}
	replace(sums, results[1:])
	return results[0], nil
}

// GradientCalls returns how many programs Backward runs. PyTorch's autograd would be called as
// often.
func (s *Programs) GradientCalls() (calls int) {
	for _, p := range []*backend.Program{s.backward, s.toParameters, s.toInput} {
		if p.Computes() {
			calls++
		}
	}
	return calls
}

// replace releases the tensors of a list and puts others in their place.
func replace(list backend.Tensors, by []*backend.DeviceTensor) {
	for i, t := range by {
		list[i].Release()
		list[i] = t
	}
}

// addByName adds a list of tensors to the inputs of a program, by parameter.
func (s *Programs) addByName(given backend.NamedTensors, key string, list backend.Tensors) {
	for i, t := range list {
		given[key+s.parameters[i].Name] = t
	}
}

// InputGradient runs I: it makes the input gradient, and leaves the rest to W. It uses up saved,
// and Deferred takes the tensors of saved that W needs.
func (s *Programs) InputGradient(
	parameters backend.Tensors, saved *Saved, outputGradient *backend.DeviceTensor,
) (inputGradient *backend.DeviceTensor, work *Deferred, err error) {
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
	results, err := s.run(outputGradient, call{s.inputGradient, given, saved.seed, spend})
	if err != nil {
		return nil, nil, err
	}
	split := 1 + len(s.workSlots)
	held := holdResults(outputGradient.Device(), s.workSlots, results[1:split])
	work = &Deferred{heldTensors: held, gradients: results[split:]}
	for _, slot := range s.passedOn {
		work.slots = append(work.slots[:len(work.slots):len(work.slots)], slot)
		work.values[slot.name] = saved.values[slot.name].Retain()
	}
	return results[0], work, nil
}

// WeightGradient runs W: it adds the gradients of the parameters to sums, as Backward does. It
// uses up work.
func (s *Programs) WeightGradient(work *Deferred, sums backend.Tensors) error {
	defer work.Release()
	given := maps.Clone(work.values)
	s.addByName(given, earlyKey, work.gradients)
	s.addByName(given, sumKey, sums)
	results, err := s.weightGradient.Run(work.device, given, spendAll)
	if err != nil {
		return err
	}
	replace(sums, results)
	return nil
}

// inputs returns the inputs of a program by name: the parameters and others.
func (s *Programs) inputs(parameters backend.Tensors, others backend.NamedTensors) (backend.NamedTensors, error) {
	if len(parameters) != len(s.parameters) {
		return nil, fmt.Errorf("%s: %d parameters, not %d", s.name(), len(parameters), len(s.parameters))
	}
	given := make(backend.NamedTensors, len(parameters)+len(others)+1)
	maps.Copy(given, others)
	for i, t := range parameters {
		given[parameterKey+s.parameters[i].Name] = t
	}
	return given, nil
}

// A call is one run of a program.
type call struct {
	program *backend.Program
	given   backend.NamedTensors
	seed    MaskSeed
	spend   func(name string) bool // which inputs are used up; nil for none
}

// run runs a program on the device of one of its inputs, with the masks that it takes.
func (s *Programs) run(at *backend.DeviceTensor, c call) ([]*backend.DeviceTensor, error) {
	if at == nil {
		return nil, fmt.Errorf("%s: no input", c.program.Name)
	}
	masks, err := s.addMasks(at.Device(), c)
	if err != nil {
		return nil, err
	}
	defer masks.Release()
	spend := func(name string) bool { return c.spend != nil && c.spend(name) || isMask(name) }
	return c.program.Run(at.Device(), c.given, spend)
}

// Saved holds the tensors that Forward saves for the backward passes of one microbatch.
type Saved struct {
	heldTensors
	seed MaskSeed // for a forward that the backward repeats
}

// Deferred holds the tensors that InputGradient leaves to WeightGradient.
type Deferred struct {
	heldTensors
	gradients backend.Tensors // that are made already, of norms; nil for others
}

// Outputs is what the network makes of the microbatch before its loss: the logarithms of the
// probabilities of the classes (tokens), a row for each target. It is nil except on the last
// stage, and remains Saved's.
func (s *Saved) Outputs() *backend.DeviceTensor {
	for name, t := range s.values {
		if strings.HasSuffix(name, "/"+logProbabilities) {
			return t
		}
	}
	return nil
}

// heldTensors keeps tensors between two passes.
type heldTensors struct {
	device *backend.LocalDevice
	slots  []slot
	values backend.NamedTensors
}

func (h *heldTensors) release() {
	for _, t := range h.values {
		t.Release()
	}
	h.slots, h.values = nil, nil
}

// holdResults keeps the results of a program in slots.
func holdResults(d *backend.LocalDevice, slots []slot, results []*backend.DeviceTensor) heldTensors {
	h := heldTensors{device: d, slots: slots, values: backend.NamedTensors{}}
	for i, s := range slots {
		h.values[s.name] = results[i]
	}
	return h
}

// Release frees the tensors of a microbatch whose backward will not run. It does nothing to
// nil.
func (s *Saved) Release() {
	if s != nil {
		s.heldTensors.release()
	}
}

// Release frees the tensors that were left to WeightGradient. It does nothing to nil.
func (w *Deferred) Release() {
	if w != nil {
		w.heldTensors.release()
		w.gradients.Release()
		w.gradients = nil
	}
}
