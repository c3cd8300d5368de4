package programs

import (
	"cmp"
	"fmt"

	"psim/costmodel/network"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// Options of a stage.
type Options struct {
	// Samples of a microbatch, 1 or more. A stage is compiled for one number;
	// stages of other sizes share its parameters.
	Samples int
	// Recompute says what Forward does not save.
	Recompute Recompute
	// TwoPass has Backward run two programs, each of which walks all layers: one for the
	// gradients of the parameters and one for that of the input (see
	// training.BackwardTwoPass).
	TwoPass bool
	dtype   dtypes.DType // of numbers; float32 except in tests
}

// Recompute says what Forward does not save, so that the backward makes it
// again.
type Recompute uint8

const (
	SaveAll     Recompute = iota // nothing is made again
	RepeatLayer                  // a repeatable layer saves only its input: network's recompute = "full"
	RepeatStage                  // the stage saves only its input, and targets
)

// Stage is the compiled programs of consecutive layers for microbatches of one
// size. Its passes may run concurrently, for different microbatches.
type Stage struct {
	layers     []layer
	units      []unit
	options    Options
	dtype      dtypes.DType
	parameters []network.Tensor
	index      map[string]int // in parameters

	inputShape, outputShape shapes.Shape

	slots map[string]slot   // by first name
	names map[string]string // from any name of a slot to its first
	// What each pass hands on: savedSlots from Forward, workSlots made by
	// InputGradient, passedOn from Forward to WeightGradient.
	savedSlots, workSlots, passedOn []slot

	// early marks the parameters whose gradients InputGradient makes.
	early []bool

	masks map[string]mask // by the name of a program's input

	forward, backward, inputGradient, weightGradient *program
	toParameters, toInput                            *program // with TwoPass, in place of backward
}

// A unit is a run of layers that are repeated together, or a layer that is not
// repeated.
type unit struct {
	layers []layer
	repeat bool
}

// Compile makes the programs of consecutive layers of a network for a backend.
// Layers that end with a loss make a last stage.
func Compile(backend compute.Backend, layers []network.Layer, options Options) (*Stage, error) {
	if len(layers) == 0 || options.Samples < 1 {
		return nil, fmt.Errorf("a stage of %d layers and %d samples: must be at least 1 each", len(layers), options.Samples)
	}
	s := &Stage{options: options, dtype: cmp.Or(options.dtype, dtypes.Float32), index: map[string]int{}, slots: map[string]slot{}, names: map[string]string{}, masks: map[string]mask{}}
	for _, l := range layers {
		made, err := newLayer(l, options.Samples)
		if err != nil {
			return nil, err
		}
		s.layers = append(s.layers, made)
		s.addParameters(l)
	}
	s.inputShape = s.shapeOfInput()
	s.group()
	if err := s.compile(backend); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// addParameters takes tensors owned or tied. One that both an embedding and its
// tied head use is listed once.
func (s *Stage) addParameters(l network.Layer) {
	for _, t := range append(l.Params[:len(l.Params):len(l.Params)], l.Tied...) {
		if _, ok := s.index[t.Name]; !ok {
			s.index[t.Name] = len(s.parameters)
			s.parameters = append(s.parameters, t)
		}
	}
}

// shapeOfInput: tokens and rows are flat over samples; images have four axes,
// with channels last.
func (s *Stage) shapeOfInput() shapes.Shape {
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
func (s *Stage) group() {
	if s.options.Recompute == RepeatStage {
		s.units = []unit{{s.layers, true}}
		return
	}
	for _, l := range s.layers {
		s.units = append(s.units, unit{[]layer{l}, s.options.Recompute == RepeatLayer && l.Repeatable})
	}
}

// Parameters lists the tensors that the stage needs, in the order of its lists
// of parameters and gradients. A table that is tied to one of another stage is
// among them: add the gradients of both.
func (s *Stage) Parameters() []network.Tensor { return s.parameters }

// Last reports whether the stage ends with the loss.
func (s *Stage) Last() bool {
	ops := s.layers[len(s.layers)-1].Ops
	return len(ops) > 0 && ops[len(ops)-1].Function == network.CrossEntropy
}

// InputDimensions of Forward's input.
func (s *Stage) InputDimensions() []int { return s.inputShape.Dimensions }

// Targets is the number of targets of a microbatch, which the last stage's
// Forward takes: one for each row of logits.
func (s *Stage) Targets() int {
	out := s.layers[len(s.layers)-1].Output
	return s.options.Samples * int(out.Elements()) / out[len(out)-1]
}

// Close frees the programs.
func (s *Stage) Close() {
	for _, p := range []*program{s.forward, s.backward, s.inputGradient, s.weightGradient, s.toParameters, s.toInput} {
		p.close()
	}
}
