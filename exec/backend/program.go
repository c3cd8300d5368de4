package backend

import (
	"fmt"
	"slices"

	"psim/internal/cores"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// A Program is a compiled graph with named inputs. A result is an output of the graph or, where
// it equals one of the inputs, that input itself.
type Program struct {
	Name    string
	graph   *graph.Graph
	Inputs  []string // in the order in which they were asked for
	outputs int
	made    int64   // bytes of the outputs
	given   []int64 // bytes of the inputs
	results []resultSource
	// Sizes are what the compiler says of the program's memory; zero if it says nothing.
	Sizes ProgramSizes
	// InPlace, if set, names the inputs whose memory outputs reuse once they are spent, so that
	// inputs and outputs are not both counted.
	InPlace func(name string) bool
	// Temporaries, if set, returns the most bytes of tensors that the program makes and frees
	// while it runs. Retained has the bytes of inputs that it was to use up, by name, but that
	// somebody else still holds.
	Temporaries func(retained map[string]int64) int64
}

// ProgramSizes are bytes of a program while it runs. Shared are those of arguments whose memory outputs take.
type ProgramSizes struct{ Arguments, Outputs, Shared, Temporaries int64 }

// A resultSource says where a result comes from. The zero value is a result that is missing.
type resultSource struct {
	input  int // 1 + index, or 0
	output int // 1 + index, or 0
}

// Inputs collects the inputs of a program as they are asked for.
type Inputs struct {
	Graph  *graph.Graph
	inputs []string
	nodes  map[string]*graph.Node
	heirs  map[*graph.Node]*graph.Node // results, by the inputs whose memory they take
	At     string                      // the part that is being built, for errors
}

// Replace says that a result takes the memory of an input if that is spent. A backend that does not
// find that out by itself needs to be told.
func (b *Inputs) Replace(input, result *graph.Node) { b.heirs[input] = result }

// InputNames returns the names of the inputs that were asked for.
func (b *Inputs) InputNames() map[*graph.Node]string {
	names := map[*graph.Node]string{}
	for name, node := range b.nodes {
		names[node] = name
	}
	return names
}

// Input returns the input of a name, and adds it if it is new.
func (b *Inputs) Input(name string, shape shapes.Shape) *graph.Node {
	if node, ok := b.nodes[name]; ok {
		return node
	}
	node := graph.Parameter(b.Graph, name, shape)
	b.inputs = append(b.inputs, name)
	b.nodes[name] = node
	return node
}

// Compile compiles a program that returns the nodes made by build. Some may be nil, equal to
// each other, or inputs.
func Compile(backend compute.Backend, name string, build func(*Inputs) []*graph.Node) (p *Program, err error) {
	b := &Inputs{nodes: map[string]*graph.Node{}, heirs: map[*graph.Node]*graph.Node{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("compiling %s%s: %w", name, b.At, err)
		}
	}()
	defer recoverAsError("gomlx", &err)
	b.Graph = graph.NewGraph(backend, name)
	results := build(b)
	p = &Program{Name: name, graph: b.Graph, Inputs: b.inputs}
	outputs := p.placeResults(results, b)
	p.outputs = len(outputs)
	for _, node := range outputs {
		p.made += node.Shape().ByteSize()
	}
	for _, name := range b.inputs {
		p.given = append(p.given, b.nodes[name].Shape().ByteSize())
	}
	if len(outputs) == 0 {
		return p, nil
	}
	p.Sizes, err = compileSharing(backend, b.shared(outputs), func() error { return b.Graph.Compile(outputs...) })
	return p, err
}

// shared lists, for every input, the number of the output that takes its memory, or -1.
func (b *Inputs) shared(outputs []*graph.Node) []int32 {
	list := make([]int32, len(b.inputs))
	for i, name := range b.inputs {
		list[i] = int32(slices.Index(outputs, b.heirs[b.nodes[name]]))
	}
	return list
}

// placeResults finds the source of every result, and returns the outputs of the graph.
func (p *Program) placeResults(results []*graph.Node, b *Inputs) (outputs []*graph.Node) {
	known := map[*graph.Node]resultSource{nil: {}}
	for i, name := range b.inputs {
		known[b.nodes[name]] = resultSource{input: i + 1}
	}
	for _, node := range results {
		if _, ok := known[node]; !ok {
			outputs = append(outputs, node)
			known[node] = resultSource{output: len(outputs)}
		}
		p.results = append(p.results, known[node])
	}
	return outputs
}

// Run executes the program on a device and waits for it. The memory of an input is given to the
// program if spend, which may be nil, says so and nobody else holds it. The caller holds the
// results.
func (p *Program) Run(
	d *LocalDevice, given NamedTensors, spend func(name string) bool,
) (results []*DeviceTensor, err error) {
	defer recoverAsError(p.Name, &err)
	if spend == nil {
		spend = func(string) bool { return false }
	}
	inputs := make([]*DeviceTensor, len(p.Inputs))
	for i, name := range p.Inputs {
		if inputs[i] = given[name]; inputs[i] == nil {
			return nil, fmt.Errorf("%s: no tensor for %s", p.Name, name)
		}
	}
	outputs, err := p.execute(d, inputs, spend)
	if err != nil {
		return nil, err
	}
	results = make([]*DeviceTensor, len(p.results))
	for i, from := range p.results {
		switch {
		case from.input > 0:
			results[i] = inputs[from.input-1].Retain()
		case from.output > 0:
			results[i] = outputs[from.output-1].Retain()
		}
	}
	Tensors(outputs).Release()
	return results, nil
}

// execute runs the graph, and counts the bytes of its outputs and temporaries.
func (p *Program) execute(d *LocalDevice, inputs []*DeviceTensor, spend func(string) bool) ([]*DeviceTensor, error) {
	if p.outputs == 0 {
		return nil, nil
	}
	buffers, spent, err := p.arguments(d, inputs, spend)
	if err != nil {
		return nil, err
	}
	replaced := int64(0)
	for i, t := range inputs {
		if spent[i] && t.counted && p.InPlace != nil && p.InPlace(p.Inputs[i]) {
			t.counted = false
			replaced += t.Bytes()
		}
	}
	peak := p.peak(inputs, spent, spend)
	d.count(peak - replaced) // the device needs room before the program runs
	var outputs []*DeviceTensor
	defer func() {
		if outputs == nil {
			d.count(-peak)
		}
	}()
	defer cores.Steady()()
	for _, value := range p.graph.RunWithBuffers(buffers, spent, d.Number) {
		outputs = append(outputs, wrap(d, value))
	}
	for i, t := range inputs {
		if spent[i] {
			t.discount() // the program has consumed it
		}
	}
	d.count(p.made - peak)
	return outputs, nil
}

// peak returns the bytes to count while the program runs: those of its outputs and of its
// temporaries.
func (p *Program) peak(inputs []*DeviceTensor, spent []bool, spend func(string) bool) int64 {
	if p.Temporaries == nil {
		return p.made
	}
	retained := map[string]int64{}
	for i, name := range p.Inputs[:len(inputs)] {
		if spend(name) && !spent[i] {
			retained[name] += inputs[i].Bytes()
		}
	}
	return p.made + p.Temporaries(retained)
}

// arguments finds the buffers of the inputs, and which of them the program may overwrite.
func (p *Program) arguments(
	d *LocalDevice, inputs []*DeviceTensor, spend func(string) bool,
) (buffers []compute.Buffer, spent []bool, err error) {
	buffers, spent = make([]compute.Buffer, len(inputs)), make([]bool, len(inputs))
	for i, t := range inputs {
		if t.device != d {
			return nil, nil, fmt.Errorf("%s: %s is on another device", p.Name, p.Inputs[i])
		}
		take := (*tensors.Tensor).Buffer
		if spend(p.Inputs[i]) && t.holders.Load() == 1 && !p.Returns(i) {
			spent[i], take = true, (*tensors.Tensor).DonateBuffer
		}
		if buffers[i], err = take(t.value, d.Backend, d.Number); err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", p.Name, p.Inputs[i], err)
		}
	}
	return buffers, spent, nil
}

// Returns reports whether a result is the i-th input as it is.
func (p *Program) Returns(input int) bool {
	for _, from := range p.results {
		if from.input == input+1 {
			return true
		}
	}
	return false
}

// Unseen returns how many bytes more than a device counts the program takes while it runs, by what its
// compiler says; 0 if that says nothing.
func (p *Program) Unseen() int64 {
	if p.Sizes == (ProgramSizes{}) {
		return 0
	}
	counted := p.peak(nil, nil, nil)
	for i, name := range p.Inputs {
		if p.InPlace != nil && p.InPlace(name) && !p.Returns(i) {
			counted -= p.given[i]
		}
	}
	return max(0, p.Sizes.Outputs-p.Sizes.Shared+p.Sizes.Temporaries-counted)
}

// Computes reports whether the program has anything to compute.
func (p *Program) Computes() bool { return p != nil && p.outputs > 0 }

// Close frees the program. It does nothing to nil.
func (p *Program) Close() {
	if p != nil {
		p.graph.Finalize()
	}
}
