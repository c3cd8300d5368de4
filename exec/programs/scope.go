package programs

import (
	"fmt"

	"psim/costmodel/network"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// A module is a part of a layer with its passes. Tensors go from one pass to
// another by name, through the scope.
type module interface {
	// forward saves what the other passes need and returns the output.
	forward(s *scope, x *Node) *Node
	// input turns the output gradient into the input gradient, keeps what weight
	// needs of it, and makes the gradients of norms.
	input(s *scope, dy *Node) *Node
}

// A weighted module also has products, whose parameters' gradients are W's.
type weighted interface{ weight(s *scope) }

// A slot is a tensor that goes from one pass to another.
type slot struct {
	name     string // layer/buffer
	lifetime network.Lifetime
	shape    shapes.Shape
}

// A scope is what modules see of the program that they are building.
type scope struct {
	*builder
	stage *Stage
	layer string // the name of the layer at work

	local     map[string]*Node // made in this program, by slot name
	made      []string         // the keys of local in order
	lifetimes map[string]network.Lifetime
	gradients map[string]*Node // by parameter
	rows      map[string]rows  // the same, beside gradients

	live *liveBytes // of a backward program

	muted     bool // save nothing: the backward will repeat this forward
	repeating bool // it does
}

// rows make a gradient of a table that is 0 but in a few rows, which are added to
// the sum in its place: with GPT-2's vocabulary in 8 ms where a whole table of
// zeros with a few rows takes 47.
type rows struct{ index, values *Node }

func newScope(s *Stage, b *builder) *scope {
	return &scope{
		builder: b, stage: s, local: map[string]*Node{}, lifetimes: map[string]network.Lifetime{},
		gradients: map[string]*Node{}, rows: map[string]rows{},
	}
}

func (s *scope) enter(l layer) { s.layer, s.at = l.Name, ", layer "+l.Name }

// save hands a tensor made in forward to the passes behind.
func (s *scope) save(name string, lifetime network.Lifetime, node *Node) {
	if !s.muted {
		s.put(s.layer+"/"+name, lifetime, node)
	}
}

// keep hands an output gradient to weight.
func (s *scope) keep(name string, node *Node) { s.save(name, network.InputToWeight, node) }

// pin saves what recomputation cannot make again.
func (s *scope) pin(name string, lifetime network.Lifetime, node *Node) {
	if !s.repeating {
		s.put(s.layer+"/"+name, lifetime, node)
	}
}

func (s *scope) put(key string, lifetime network.Lifetime, node *Node) {
	if _, ok := s.local[key]; ok {
		panic(fmt.Errorf("%s is saved twice", key))
	}
	s.local[key], s.lifetimes[key] = node, lifetime
	s.made = append(s.made, key)
}

// saved returns what save, keep or pin was given, in this program or in one before.
func (s *scope) saved(name string) *Node { return s.get(s.layer + "/" + name) }

func (s *scope) get(key string) *Node {
	if node, ok := s.local[key]; ok {
		return node
	}
	slot, ok := s.stage.slot(key)
	if !ok {
		panic(fmt.Errorf("%s was not saved", key))
	}
	return s.input(slot.name, slot.shape)
}

func (s *scope) parameter(name string) *Node {
	i, ok := s.stage.index[name]
	if !ok {
		panic(fmt.Errorf("no parameter %s", name))
	}
	return s.input(parameterKey+name, shapes.Make(s.stage.dtype, s.stage.parameters[i].Shape...))
}

func (s *scope) shape(name string) []int { return s.stage.parameters[s.stage.index[name]].Shape }

// gradient adds to the gradient of a parameter.
func (s *scope) gradient(name string, node *Node) {
	if before, ok := s.gradients[name]; ok {
		node = graph.Add(before, node)
	}
	s.gradients[name] = node
}

// targets returns the classes or tokens that the loss compares with, saved by name.
func (s *scope) targets(name string, n int) *Node {
	if s.repeating {
		return s.saved(name)
	}
	return s.input(targetsKey, shapes.Make(dtypes.Int32, n))
}

// mask asks for that of a dropout, which the host makes for every program.
func (s *scope) mask(d dropout, dimensions []int) *Node {
	key := maskKey + s.layer + "/" + d.place
	s.stage.masks[key] = mask{d, s.layer, dimensions}
	return s.input(key, shapes.Make(dtypes.Bool, dimensions...))
}

// Names of inputs that are no slots.
const (
	parameterKey      = "parameter:"
	inputKey          = "input"
	targetsKey        = "targets"
	outputGradientKey = "output gradient"
	maskKey           = "mask:"  // + layer/place
	sumKey            = "sum:"   // + parameter: of its gradients
	earlyKey          = "early:" // + parameter: its gradient, made by InputGradient
)
