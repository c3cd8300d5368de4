package kernels

import (
	"fmt"
	"strings"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// A pass is a program to be made.
type pass struct {
	name    string
	program **backend.Program
	build   func(*scope) []*graph.Node
}

// passes lists the programs to make. The slots of each are known to those behind it.
func (s *Programs) passes() []pass {
	list, needs := []pass{{"forward", &s.forward, s.buildForward}}, s.options.Needs
	if s.ForwardOnly() {
		return list
	}
	if needs == 0 {
		needs = WholeBackward | SplitBackward
	}
	switch whole := needs&WholeBackward != 0; {
	case whole && s.options.TwoPass:
		return append(list,
			pass{"gradients of parameters", &s.toParameters, s.buildToParameters},
			pass{"gradient of the input", &s.toInput, s.buildToInput})
	case whole:
		list = append(list, pass{"backward", &s.backward, s.buildBackward})
	}
	if needs&SplitBackward != 0 && !s.options.TwoPass {
		list = append(list,
			pass{"input gradient", &s.inputGradient, s.buildInputGradient},
			pass{"weight gradient", &s.weightGradient, s.buildWeightGradient})
	}
	return list
}

// compile makes the programs.
func (s *Programs) compile(engine compute.Backend) error {
	for _, p := range s.passes() {
		var sc *scope
		made, err := backend.Compile(engine, s.name()+", "+p.name, func(b *backend.Inputs) []*graph.Node {
			sc = newScope(s, b)
			return p.build(sc)
		})
		if err != nil {
			return err
		}
		made.InPlace = isSum
		if sc.live != nil {
			made.Temporaries = sc.live.peak
		}
		*p.program = made
	}
	return nil
}

// name returns the name of the stage, for errors.
func (s *Programs) name() string {
	first, last := s.layers[0].Name, s.layers[len(s.layers)-1].Name
	if first == last {
		return "stage " + first
	}
	return fmt.Sprintf("stage %s…%s", first, last)
}

func (s *Programs) buildForward(sc *scope) []*graph.Node {
	x := sc.Input(inputKey, s.inputShape)
	for _, u := range s.units {
		x = u.forward(sc, x)
	}
	s.savedSlots = s.register(sc)
	s.outputShape = x.Shape()
	return append([]*graph.Node{x}, nodes(sc, s.savedSlots)...)
}

func (s *Programs) buildBackward(sc *scope) []*graph.Node {
	dy := sc.Input(outputGradientKey, s.outputShape)
	for i := len(s.units) - 1; i >= 0; i-- {
		dy = s.units[i].input(sc, dy)
		s.units[i].weight(sc)
	}
	sc.live = s.liveBytes(sc, false)
	return append([]*graph.Node{dy}, s.sums(sc)...)
}

// buildToParameters builds a whole backward but returns only the gradients of the parameters.
// The compiler leaves out what these do not need.
func (s *Programs) buildToParameters(sc *scope) []*graph.Node { return s.buildBackward(sc)[1:] }

// buildToInput builds the part of a backward that makes the gradient of the input.
func (s *Programs) buildToInput(sc *scope) []*graph.Node {
	dy := sc.Input(outputGradientKey, s.outputShape)
	for i := len(s.units) - 1; i >= 0; i-- {
		dy = s.units[i].input(sc, dy)
	}
	sc.live = s.liveBytes(sc, false)
	return []*graph.Node{dy}
}

func (s *Programs) buildInputGradient(sc *scope) []*graph.Node {
	dy := sc.Input(outputGradientKey, s.outputShape)
	for i := len(s.units) - 1; i >= 0; i-- {
		dy = s.units[i].input(sc, dy)
	}
	s.workSlots = forWeight(s.register(sc))
	s.passedOn = forWeight(s.savedSlots)
	results := append([]*graph.Node{dy}, nodes(sc, s.workSlots)...)
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

// buildWeightGradient makes the gradients that InputGradient left out.
func (s *Programs) buildWeightGradient(sc *scope) []*graph.Node {
	for i := len(s.units) - 1; i >= 0; i-- {
		s.units[i].weight(sc)
	}
	for i, early := range s.early {
		if name := s.parameters[i].Name; early {
			sc.gradient(name, sc.Input(earlyKey+name, s.shapeOf(i)))
		}
	}
	return s.sums(sc)
}

// forward builds the forward of a unit. A unit that will be recomputed saves only its input.
func (u unit) forward(s *scope, x *graph.Node) *graph.Node {
	if u.repeat && !s.repeating {
		s.enter(u.layers[0])
		s.pin(unitInput, network.ForwardToInput, x)
		s.muted = true
	}
	repeated := s.muted
	for _, l := range u.layers {
		s.enter(l)
		s.muted = repeated || l.ForwardOnly
		x = l.forward(s, x)
	}
	s.muted = false
	return x
}

// input goes back through a unit. Below layers through which no gradient goes there is nothing to do.
func (u unit) input(s *scope, dy *graph.Node) *graph.Node {
	if u.repeat {
		s.enter(u.layers[0])
		s.repeating = true
		u.forward(s, s.saved(unitInput))
		s.repeating = false
	}
	for i := len(u.layers) - 1; i >= 0; i-- {
		if u.layers[i].ForwardOnly {
			return nil
		}
		s.enter(u.layers[i])
		dy = u.layers[i].input(s, dy)
	}
	return dy
}

func (u unit) weight(s *scope) {
	for i := len(u.layers) - 1; i >= 0 && !u.layers[i].ForwardOnly; i-- {
		s.enter(u.layers[i])
		u.layers[i].weight(s)
	}
}

// unitInput names the saved input of a unit that is recomputed.
const unitInput = "input"

// register makes the slots of a program known to the programs behind it.
func (s *Programs) register(sc *scope) []slot {
	made := slotsOf(sc)
	of := map[*graph.Node]string{}
	for _, slot := range made {
		s.slots[slot.name] = slot
		of[sc.local[slot.name]] = slot.name
	}
	for _, key := range sc.made {
		s.names[key] = of[sc.local[key]]
	}
	return made
}

// slotsOf lists the slots that a program has made, in order. A node has one slot, which lives
// as long as the longest of its names requires.
func slotsOf(sc *scope) []slot {
	first := map[*graph.Node]int{}
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

// slot finds a slot by any of its names.
func (s *Programs) slot(name string) (slot, bool) {
	found, ok := s.slots[s.names[name]]
	return found, ok
}

// forWeight returns the slots that W reads.
func forWeight(slots []slot) []slot {
	var picked []slot
	for _, s := range slots {
		if s.lifetime != network.ForwardToInput {
			picked = append(picked, s)
		}
	}
	return picked
}

// nodes returns the nodes of slots.
func nodes(sc *scope, slots []slot) []*graph.Node {
	var list []*graph.Node
	for _, s := range slots {
		list = append(list, sc.local[s.name])
	}
	return list
}

// gradients returns the gradients that a program makes, in the order of Parameters; nil for
// others.
func (s *Programs) gradients(sc *scope) []*graph.Node {
	list := make([]*graph.Node, s.trained)
	for i, p := range s.Parameters() {
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

// sums adds the gradients that a program makes to those of earlier microbatches.
func (s *Programs) sums(sc *scope) []*graph.Node {
	list := s.gradients(sc)
	for i, p := range s.Parameters() {
		sum := sc.Input(sumKey+p.Name, s.shapeOf(i))
		if list[i] != nil {
			sum = graph.Add(sum, list[i])
		}
		if r, ok := sc.rows[p.Name]; ok {
			sum = graph.ScatterSum(sum, r.index, r.values, false, false)
		}
		sc.Replace(sc.Input(sumKey+p.Name, s.shapeOf(i)), sum)
		list[i] = sum
	}
	return list
}

func (s *Programs) shapeOf(i int) shapes.Shape { return shapes.Make(s.dtype, s.parameters[i].Shape...) }

// isSum reports whether an input of a program is a sum of gradients.
func isSum(name string) bool { return strings.HasPrefix(name, sumKey) }
