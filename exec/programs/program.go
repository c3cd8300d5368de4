package programs

import (
	"fmt"

	"psim/internal/cores"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// Node is a value within a program that is being built.
type Node = graph.Node

// A program is a compiled graph with named inputs. A result is an output of the
// graph or, where it is one of the inputs unchanged, that tensor itself.
type program struct {
	name    string
	graph   *graph.Graph
	inputs  []string
	outputs int
	made    int64      // bytes of the outputs
	live    *liveBytes // of a backward program
	results []source
	// inPlace names the inputs whose place outputs take once they are spent, so
	// that they are not counted beside them.
	inPlace func(name string) bool
}

// A source says where a result comes from. The zero value is a result that is not
// there.
type source struct {
	input  int // 1 + index, or 0
	output int // 1 + index, or 0
}

// A builder collects the inputs of a program as they are asked for.
type builder struct {
	graph  *graph.Graph
	inputs []string
	nodes  map[string]*Node
	at     string // the part that is being built, for errors
}

func (b *builder) input(name string, shape shapes.Shape) *Node {
	if node, ok := b.nodes[name]; ok {
		return node
	}
	node := graph.Parameter(b.graph, name, shape)
	b.inputs = append(b.inputs, name)
	b.nodes[name] = node
	return node
}

// compile builds a program that returns the nodes made by build, of which some
// may be nil, the same or inputs.
func compile(backend compute.Backend, name string, build func(*builder) []*Node) (p *program, err error) {
	b := &builder{nodes: map[string]*Node{}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("compiling %s%s: %w", name, b.at, err)
		}
	}()
	defer catch("gomlx", &err)
	b.graph = graph.NewGraph(backend, name)
	results := build(b)
	p = &program{name: name, graph: b.graph, inputs: b.inputs}
	outputs := p.place(results, b)
	p.outputs = len(outputs)
	for _, node := range outputs {
		p.made += node.Shape().ByteSize()
	}
	if len(outputs) == 0 {
		return p, nil
	}
	return p, b.graph.Compile(outputs...)
}

// place finds a source for every result and returns the outputs of the graph.
func (p *program) place(results []*Node, b *builder) (outputs []*Node) {
	known := map[*Node]source{nil: {}}
	for i, name := range b.inputs {
		known[b.nodes[name]] = source{input: i + 1}
	}
	for _, node := range results {
		if _, ok := known[node]; !ok {
			outputs = append(outputs, node)
			known[node] = source{output: len(outputs)}
		}
		p.results = append(p.results, known[node])
	}
	return outputs
}

// run executes the program on the device and waits for it. The memory of an input
// is given to the program if spend says so and nobody else holds it. The results
// are held by the caller.
func (p *program) run(d *Device, given map[string]*Tensor, spend func(name string) bool) (results []*Tensor, err error) {
	defer catch(p.name, &err)
	inputs := make([]*Tensor, len(p.inputs))
	for i, name := range p.inputs {
		if inputs[i] = given[name]; inputs[i] == nil {
			return nil, fmt.Errorf("%s: no tensor for %s", p.name, name)
		}
	}
	outputs, err := p.execute(d, inputs, spend)
	if err != nil {
		return nil, err
	}
	results = make([]*Tensor, len(p.results))
	for i, from := range p.results {
		switch {
		case from.input > 0:
			results[i] = inputs[from.input-1].Retain()
		case from.output > 0:
			results[i] = outputs[from.output-1].Retain()
		}
	}
	List(outputs).Release()
	return results, nil
}

func (p *program) execute(d *Device, inputs []*Tensor, spend func(string) bool) ([]*Tensor, error) {
	if p.outputs == 0 {
		return nil, nil
	}
	buffers, spent, err := p.arguments(d, inputs, spend)
	if err != nil {
		return nil, err
	}
	replaced := int64(0)
	for i, t := range inputs {
		if spent[i] && t.counted && p.inPlace != nil && p.inPlace(p.inputs[i]) {
			t.counted = false
			replaced += t.Bytes()
		}
	}
	peak := p.peak(inputs, spent, spend)
	d.count(peak - replaced) // must fit before it runs
	var outputs []*Tensor
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
			t.discount() // the program had it, and it is gone
		}
	}
	d.count(p.made - peak)
	return outputs, nil
}

// peak returns the bytes that are counted while the program runs: of its outputs
// and, in a backward, of what it makes on its way.
func (p *program) peak(inputs []*Tensor, spent []bool, spend func(string) bool) int64 {
	if p.live == nil {
		return p.made
	}
	retained := map[string]int64{}
	for i, name := range p.inputs {
		if layer, ok := p.live.usedUp[name]; ok && spend(name) && !spent[i] {
			retained[layer] += inputs[i].Bytes()
		}
	}
	return p.made + p.live.peak(retained)
}

// arguments finds the buffers of the inputs, and which of them the program may
// overwrite.
func (p *program) arguments(d *Device, inputs []*Tensor, spend func(string) bool) (buffers []compute.Buffer, spent []bool, err error) {
	buffers, spent = make([]compute.Buffer, len(inputs)), make([]bool, len(inputs))
	for i, t := range inputs {
		if t.device != d {
			return nil, nil, fmt.Errorf("%s: %s is on another device", p.name, p.inputs[i])
		}
		take := (*tensors.Tensor).Buffer
		if spend(p.inputs[i]) && t.holders.Load() == 1 && !p.returns(i) {
			spent[i], take = true, (*tensors.Tensor).DonateBuffer
		}
		if buffers[i], err = take(t.value, d.Backend, d.Number); err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", p.name, p.inputs[i], err)
		}
	}
	return buffers, spent, nil
}

func (p *program) returns(input int) bool {
	for _, from := range p.results {
		if from.input == input+1 {
			return true
		}
	}
	return false
}

func (p *program) close() {
	if p != nil {
		p.graph.Finalize()
	}
}
