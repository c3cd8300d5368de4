// Package kernels compiles the computation of a pipeline stage with gomlx, and runs it on
// tensors that stay on a device.
//
// [Programs] are made of consecutive layers of costmodel/network and a number of samples. They
// have four passes, each of them one compiled program that every step uses again:
//
//	Forward         F: parameters, input → output, saved tensors
//	Backward        B: parameters, saved, output gradient → input gradient, parameter gradients
//	InputGradient   I: the first half of B, which leaves the rest to W
//	WeightGradient  W: the second half, which repeats nothing of I
//
// The output of the last stage is the sum of the losses of its tokens (images). Its output
// gradient is a scalar. With 1/n, where n is the number of tokens of the whole batch, the
// gradients of microbatches of any size add up to the gradient of the mean; a backward adds them
// to the sum of the earlier microbatches. Optimizer steps are programs as well ([Updates]).
//
// The host makes the masks of dropout and gives them to the programs ([MaskSeed]). To evaluate a
// network without dropout, compile layers without it.
//
// # Tensors and memory
//
// A tensor counts its holders, and the last one frees it. The caller holds what a call returns,
// and has to release it. A call holds the arguments that it keeps, such as an input that the
// backward needs. Saved and Deferred are used up by the call that takes them, and their memory
// is given to the programs. A device counts the bytes of its tensors. It counts the results of a
// pass from the moment when the pass begins, together with the tensors that the pass uses up,
// except for sums and optimizer steps, which work in place. It does not count temporaries within
// a program.
//
// A microbatch of n sequences of s tokens is a matrix of n·s rows. Images are rows × columns ×
// channels on the device, and parameters are as in costmodel/network. Saved tensors are those of
// training.Options.Kept, to the byte: a tensor that two layers list is one tensor, and so is one
// that is also the stage's input or output, or the gradient that the stage was given.
package kernels

import (
	"cmp"
	"fmt"
	"slices"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// Options say how layers are compiled.
type Options struct {
	// Samples of a microbatch, 1 or more. Programs are compiled for one number; those of other
	// sizes use the same parameters.
	Samples int
	// Recompute says which tensors Forward does not save.
	Recompute Recompute
	// TwoPass lets Backward run two programs that both walk all layers: one for the
	// gradients of the parameters and one for the gradient of the input (see
	// training.BackwardTwoPass).
	TwoPass bool
	// Needs says which programs are made besides that of Forward; 0 is all.
	Needs Backwards
	dtype dtypes.DType // of numbers; not float32 only in tests
}

// Backwards says which kinds of backwards are run: a program that no task runs need not be compiled.
type Backwards uint8

// The kinds of backwards. They may be combined.
const (
	NoBackward    Backwards = 1 << iota // only Forward
	WholeBackward                       // B
	SplitBackward                       // I and W
)

// Recompute says which tensors Forward does not save, so that the backward makes them again.
type Recompute uint8

// What can be recomputed.
const (
	SaveAll     Recompute = iota // nothing
	RepeatLayer                  // repeatable layers, which save only their input: recompute = "full"
	RepeatStage                  // the whole stage, which saves only its input and the targets
)

// Programs are the compiled passes of consecutive layers for microbatches of one size. They may
// run concurrently, for different microbatches.
type Programs struct {
	layers  []layer
	units   []unit
	options Options
	dtype   dtypes.DType
	// parameters are the trained ones, and behind them those that are frozen.
	parameters []network.Tensor
	trained    int            // how many of parameters are trained
	index      map[string]int // in parameters

	inputShape, outputShape shapes.Shape

	slots map[string]slot   // by first name
	names map[string]string // from any name of a slot to its first
	// What the passes hand on: savedSlots come from Forward, workSlots are made by
	// InputGradient, passedOn go from Forward to WeightGradient.
	savedSlots, workSlots, passedOn []slot

	// early marks the parameters whose gradients InputGradient makes.
	early []bool

	masks map[string]mask // by the name of the program's input

	forward, backward, inputGradient, weightGradient *backend.Program
	toParameters, toInput                            *backend.Program // instead of backward, with TwoPass
}

// A unit is a run of layers that are recomputed together, or a single layer.
type unit struct {
	layers []layer
	repeat bool
}

// Compile makes the programs of consecutive layers of a network for a backend. Layers that end
// with a loss make a last stage.
func Compile(engine compute.Backend, layers []network.Layer, options Options) (*Programs, error) {
	if len(layers) == 0 || options.Samples < 1 {
		return nil, fmt.Errorf("a stage of %d layers and %d samples: must be at least 1 each",
			len(layers), options.Samples)
	}
	s := &Programs{
		options: options, dtype: cmp.Or(options.dtype, dtypes.Float32), index: map[string]int{},
		slots: map[string]slot{}, names: map[string]string{}, masks: map[string]mask{},
	}
	for _, l := range layers {
		made, err := newLayer(l, options.Samples)
		if err != nil {
			return nil, err
		}
		s.layers = append(s.layers, made)
	}
	s.addParameters(layers...)
	s.inputShape = s.shapeOfInput()
	s.group()
	if err := s.compile(engine); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// addParameters lists the tensors that layers own or share, first those that are trained. A table that both an
// embedding and its tied head use is listed once.
func (s *Programs) addParameters(layers ...network.Layer) {
	for _, l := range layers {
		s.addTensors(l.Params, l.Tied)
	}
	s.trained = len(s.parameters)
	for _, l := range layers {
		s.addTensors(l.Frozen, l.FrozenTied)
	}
}

func (s *Programs) addTensors(own, tied []network.Tensor) {
	for _, t := range slices.Concat(own, tied) {
		if _, ok := s.index[t.Name]; !ok {
			s.index[t.Name] = len(s.parameters)
			s.parameters = append(s.parameters, t)
		}
	}
}

// shapeOfInput returns the shape of the input. Tokens and rows are flat over the samples;
// images have four axes, with channels last.
func (s *Programs) shapeOfInput() shapes.Shape {
	first, n := s.layers[0], s.options.Samples
	switch in := first.Input; {
	case first.Kind == network.KindEmbedding:
		return shapes.Make(dtypes.Int32, n*in[0])
	case len(in) == 3:
		return shapes.Make(s.dtype, n, in[1], in[2], in[0])
	case len(in) == 2:
		return shapes.Make(s.dtype, n*in[0], in[1])
	default:
		return shapes.Make(s.dtype, n, in[0])
	}
}

// group makes the units that Recompute asks for.
func (s *Programs) group() {
	if s.options.Recompute == RepeatStage {
		s.units = []unit{{s.layers, !s.ForwardOnly()}}
		return
	}
	for _, l := range s.layers {
		repeat := s.options.Recompute == RepeatLayer && l.Repeatable && !l.ForwardOnly
		s.units = append(s.units, unit{[]layer{l}, repeat})
	}
}

// Parameters lists the tensors of the layers that are trained, in the order of the lists of
// gradients. A table that is tied to a table of another stage is one of them: add up the
// gradients of both. Passes take them, and the Frozen behind them.
func (s *Programs) Parameters() []network.Tensor { return s.parameters[:s.trained:s.trained] }

// Frozen lists the tensors of the layers that are not trained. They have no gradients.
func (s *Programs) Frozen() []network.Tensor { return s.parameters[s.trained:] }

// ForwardOnly reports whether no gradient goes back through the layers. Their backward is not to be run.
func (s *Programs) ForwardOnly() bool { return s.layers[len(s.layers)-1].ForwardOnly }

// Last reports whether the layers end with the loss.
func (s *Programs) Last() bool {
	ops := s.layers[len(s.layers)-1].Ops
	return len(ops) > 0 && ops[len(ops)-1].Function == network.CrossEntropy
}

// InputDimensions returns the dimensions of Forward's input.
func (s *Programs) InputDimensions() []int { return s.inputShape.Dimensions }

// Targets returns the number of targets of a microbatch, which Forward of a last stage takes:
// one for each row of logits.
func (s *Programs) Targets() int {
	out := s.layers[len(s.layers)-1].Output
	return s.options.Samples * int(out.Elements()) / out[len(out)-1]
}

// Compiled lists the programs that were made.
func (s *Programs) Compiled() (list []*backend.Program) {
	for _, p := range []*backend.Program{
		s.forward, s.backward, s.inputGradient, s.weightGradient, s.toParameters, s.toInput,
	} {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

// Close frees the programs.
func (s *Programs) Close() {
	for _, p := range s.Compiled() {
		p.Close()
	}
}
