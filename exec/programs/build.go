package programs

import (
	"fmt"
	"strings"

	"psim/costmodel/network"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// A pass is a program to be made of a stage.
type pass struct {
	name    string
	program **program
	build   func(*scope) []*Node
}

// passes lists the programs of a stage. Each one's slots are those of the ones before.
func (s *Stage) passes() []pass {
	forward := pass{"forward", &s.forward, s.buildForward}
	if s.options.TwoPass {
		return []pass{forward, {"gradients of parameters", &s.toParameters, s.buildToParameters}, {"gradient of the input", &s.toInput, s.buildToInput}}
	}
	return []pass{
		forward,
		{"backward", &s.backward, s.buildBackward},
		{"input gradient", &s.inputGradient, s.buildInputGradient},
		{"weight gradient", &s.weightGradient, s.buildWeightGradient},
	}
}

// compile makes the programs.
func (s *Stage) compile(backend compute.Backend) error {
	for _, p := range s.passes() {
		var sc *scope
		made, err := compile(backend, s.name()+", "+p.name, func(b *builder) []*Node {
			sc = newScope(s, b)
			return p.build(sc)
		})
		if err != nil {
			return err
		}
		made.inPlace, made.live = isSum, sc.live
		*p.program = made
	}
	return nil
}

func (s *Stage) name() string {
	first, last := s.layers[0].Name, s.layers[len(s.layers)-1].Name
	if first == last {
		return "stage " + first
	}
	return fmt.Sprintf("stage %s…%s", first, last)
}

func (s *Stage) buildForward(sc *scope) []*Node {
	x := sc.input(inputKey, s.inputShape)
	for _, u := range s.units {
		x = u.forward(sc, x)
	}
	s.savedSlots = s.register(sc)
	s.outputShape = x.Shape()
	return append([]*Node{x}, nodes(sc, s.savedSlots)...)
}

func (s *Stage) buildBackward(sc *scope) []*Node {
	dy := sc.input(outputGradientKey, s.outputShape)
	for i := len(s.units) - 1; i >= 0; i-- {
		dy = s.units[i].input(sc, dy)
		s.units[i].weight(sc)
	}
	sc.live = s.liveBytes(sc, false)
	return append([]*Node{dy}, s.sums(sc)...)
}

// buildToParameters builds a whole backward of which only the gradients of parameters
// are asked for: the compiler leaves out what they do not need.
func (s *Stage) buildToParameters(sc *scope) []*Node { return s.buildBackward(sc)[1:] }

// buildToInput asks for the gradient of the input only.
func (s *Stage) buildToInput(sc *scope) []*Node {
	dy := sc.input(outputGradientKey, s.outputShape)
	for i := len(s.units) - 1; i >= 0; i-- {
		dy = s.units[i].input(sc, dy)
	}
	sc.live = s.liveBytes(sc, false)
	return []*Node{dy}
}

func (s *Stage) buildInputGradient(sc *scope) []*Node {
	dy := sc.input(outputGradientKey, s.outputShape)
	for i := len(s.units) - 1; i >= 0; i-- {
		dy = s.units[i].input(sc, dy)
	}
	s.workSlots = forWeight(s.register(sc))
	s.passedOn = forWeight(s.savedSlots)
	results := append([]*Node{dy}, nodes(sc, s.workSlots)...)
	gradients := s.gradients(sc)
	sc.live = s.liveBytes(sc, true)
	s.early = make([]bool, len(gradients))
	for i, node := range gradients {
		if s.early[i] = node != nil; node != nil {
			sc.live.make(s.ownerOf(s.parameters[i].Name), node.Shape().ByteSize(), true)
		}
	}
	return append(results, gradients...)
}

func (s *Stage) buildWeightGradient(sc *scope) []*Node {
	for i := len(s.units) - 1; i >= 0; i-- {
		s.units[i].weight(sc)
	}
	for i, early := range s.early {
		if name := s.parameters[i].Name; early {
			sc.gradient(name, sc.input(earlyKey+name, s.shapeOf(i)))
		}
	}
	return s.sums(sc)
}

// forward builds that of a unit; one that will be repeated saves its input alone.
func (u unit) forward(s *scope, x *Node) *Node {
	if u.repeat && !s.repeating {
		s.enter(u.layers[0])
		s.pin(unitInput, network.ForwardToInput, x)
		s.muted = true
	}
	for _, l := range u.layers {
		s.enter(l)
		x = l.forward(s, x)
	}
	s.muted = false
	return x
}

func (u unit) input(s *scope, dy *Node) *Node {
	if u.repeat {
		s.enter(u.layers[0])
		s.repeating = true
		u.forward(s, s.saved(unitInput))
		s.repeating = false
	}
	for i := len(u.layers) - 1; i >= 0; i-- {
		s.enter(u.layers[i])
		dy = u.layers[i].input(s, dy)
	}
	return dy
}

func (u unit) weight(s *scope) {
	for i := len(u.layers) - 1; i >= 0; i-- {
		s.enter(u.layers[i])
		u.layers[i].weight(s)
	}
}

const unitInput = "input"

// register makes what a program has made known to the programs behind it.
func (s *Stage) register(sc *scope) []slot {
	made := slotsOf(sc)
	of := map[*Node]string{}
	for _, slot := range made {
		s.slots[slot.name] = slot
		of[sc.local[slot.name]] = slot.name
	}
	for _, key := range sc.made {
		s.names[key] = of[sc.local[key]]
	}
	return made
}

// slotsOf lists what a program has made, in order: one slot for each node, which
// lives as long as the longest of its names asks.
func slotsOf(sc *scope) []slot {
	first := map[*Node]int{}
	var made []slot
	for _, key := range sc.made {
		node := sc.local[key]
		i, ok := first[node]
		if !ok {
			i = len(made)
			first[node] = i
			made = append(made, slot{name: key, shape: node.Shape()})
		}
		made[i].lifetime = max(made[i].lifetime, sc.lifetimes[key])
	}
	return made
}

func (s *Stage) slot(name string) (slot, bool) {
	found, ok := s.slots[s.names[name]]
	return found, ok
}

func forWeight(slots []slot) []slot {
	var picked []slot
	for _, s := range slots {
		if s.lifetime != network.ForwardToInput {
			picked = append(picked, s)
		}
	}
	return picked
}

func nodes(sc *scope, slots []slot) []*Node {
	var list []*Node
	for _, s := range slots {
		list = append(list, sc.local[s.name])
	}
	return list
}

// gradients made in a program, in the order of the parameters, others nil.
func (s *Stage) gradients(sc *scope) []*Node {
	list := make([]*Node, len(s.parameters))
	for i, p := range s.parameters {
		node := sc.gradients[p.Name]
		if node == nil {
			continue
		}
		if !node.Shape().Equal(s.shapeOf(i)) {
			panic(fmt.Errorf("the gradient of %s has the shape %s", p.Name, node.Shape()))
		}
		list[i] = node
	}
	return list
}

// sums adds the gradients made in a program to those of earlier microbatches.
func (s *Stage) sums(sc *scope) []*Node {
	list := s.gradients(sc)
	for i, p := range s.parameters {
		sum := sc.input(sumKey+p.Name, s.shapeOf(i))
		if list[i] != nil {
			sum = graph.Add(sum, list[i])
		}
		if r, ok := sc.rows[p.Name]; ok {
			sum = graph.ScatterSum(sum, r.index, r.values, false, false)
		}
		list[i] = sum
	}
	return list
}

func (s *Stage) shapeOf(i int) shapes.Shape { return shapes.Make(s.dtype, s.parameters[i].Shape...) }

func isSum(name string) bool { return strings.HasPrefix(name, sumKey) }
