package kernels

import (
	"fmt"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// A module is a part of a layer with its passes. Tensors go from one pass to another by name,
// through the scope.
type module interface {
	// forward saves the tensors that the other passes need, and returns the output.
	forward(s *scope, x *graph.Node) *graph.Node
	// input turns the output gradient into the input gradient, keeps the tensors that weight
	// needs, and makes the gradients of norms.
	input(s *scope, dy *graph.Node) *graph.Node
}

// A weighted module also has products. W makes the gradients of their parameters.
type weighted interface{ weight(s *scope) }

// A slot is a tensor that goes from one pass to another.
type slot struct {
	name     string // layer/buffer
	lifetime network.Lifetime
	shape    shapes.Shape
}

// A scope is the part of the program being built that modules see.
type scope struct {
	*backend.Inputs
	stage *Programs
	layer string // the name of the current layer

	local     map[string]*graph.Node // made in this program, by slot name
	made      []string               // the keys of local, in order
	lifetimes map[string]network.Lifetime
	gradients map[string]*graph.Node // by parameter
	rows      map[string]rows        // gradients of tables that are 0 in most rows

	live *liveBytes // of a backward program

	muted     bool // save nothing, because the backward repeats this forward
	repeating bool // the backward repeats a forward
}

// rows hold the gradient of a table that is 0 except in a few rows. Only these are added to the
// sum. With GPT-2's vocabulary that takes 8 ms, where adding a whole table takes 47.
type rows struct{ index, values *graph.Node }

func newScope(s *Programs, b *backend.Inputs) *scope {
	return &scope{
		Inputs: b, stage: s, local: map[string]*graph.Node{}, lifetimes: map[string]network.Lifetime{},
		gradients: map[string]*graph.Node{}, rows: map[string]rows{},
	}
}

// enter sets the current layer.
func (s *scope) enter(l layer) { s.layer, s.At = l.Name, ", layer "+l.Name }

// save hands a tensor that forward has made to the later passes.
func (s *scope) save(name string, lifetime network.Lifetime, node *graph.Node) {
	if !s.muted {
		s.put(s.layer+"/"+name, lifetime, node)
	}
}

// keep hands an output gradient to weight.
func (s *scope) keep(name string, node *graph.Node) { s.save(name, network.InputToWeight, node) }

// pin saves a tensor that recomputation cannot make again.
func (s *scope) pin(name string, lifetime network.Lifetime, node *graph.Node) {
	if !s.repeating {
		s.put(s.layer+"/"+name, lifetime, node)
	}
}

// put records a node under a slot name.
func (s *scope) put(key string, lifetime network.Lifetime, node *graph.Node) {
	if _, ok := s.local[key]; ok {
		panic(fmt.Errorf("%s is saved twice", key))
	}
	s.local[key], s.lifetimes[key] = node, lifetime
	s.made = append(s.made, key)
}

// saved returns the tensor that was given to save, keep or pin, in this program or in an earlier
// one.
func (s *scope) saved(name string) *graph.Node { return s.get(s.layer + "/" + name) }

// has reports whether the current layer has saved a tensor.
func (s *scope) has(name string) bool {
	key := s.layer + "/" + name
	_, known := s.stage.slot(key)
	return known || s.local[key] != nil
}

// get returns the node of a slot, as an input of the program if an earlier one has made it.
func (s *scope) get(key string) *graph.Node {
	if node, ok := s.local[key]; ok {
		return node
	}
	slot, ok := s.stage.slot(key)
	if !ok {
		panic(fmt.Errorf("%s was not saved", key))
	}
	return s.Input(slot.name, slot.shape)
}

// parameter returns a parameter of the stage.
func (s *scope) parameter(name string) *graph.Node {
	i, ok := s.stage.index[name]
	if !ok {
		panic(fmt.Errorf("no parameter %s", name))
	}
	return s.Input(parameterKey+name, shapes.Make(s.stage.dtype, s.stage.parameters[i].Shape...))
}

func (s *scope) shape(name string) []int { return s.stage.parameters[s.stage.index[name]].Shape }

// trains reports whether a parameter is trained. A frozen one has no gradient.
func (s *scope) trains(name string) bool {
	i, ok := s.stage.index[name]
	return ok && i < s.stage.trained
}

// gradient adds to the gradient of a parameter, if that is trained.
func (s *scope) gradient(name string, node *graph.Node) {
	if !s.trains(name) {
		return
	}
	if before, ok := s.gradients[name]; ok {
		node = graph.Add(before, node)
	}
	s.gradients[name] = node
}

// targets returns the classes or tokens that the loss compares with, which are saved by name.
func (s *scope) targets(name string, n int) *graph.Node {
	if s.repeating {
		return s.saved(name)
	}
	return s.Input(targetsKey, shapes.Make(dtypes.Int32, n))
}

// mask asks for the mask of a dropout, which the host makes for every program.
func (s *scope) mask(d dropout, dimensions []int) *graph.Node {
	key := maskKey + s.layer + "/" + d.place
	s.stage.masks[key] = mask{d, s.layer, dimensions}
	return s.Input(key, shapes.Make(dtypes.Bool, dimensions...))
}

// Names of inputs that are not slots.
const (
	parameterKey      = "parameter:"
	inputKey          = "input"
	targetsKey        = "targets"
	outputGradientKey = "output gradient"
	maskKey           = "mask:"  // + layer/place
	sumKey            = "sum:"   // + parameter: the sum of its gradients
	earlyKey          = "early:" // + parameter: its gradient, if InputGradient has made it
)
