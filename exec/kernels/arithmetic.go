package kernels

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Arithmetic is what collectives and averages compute on the devices of a backend: sums,
// multiples, and tensors that are laid end to end and cut into chunks. Programs are compiled
// when they are first needed. Its methods may be called concurrently.
type Arithmetic struct {
	backend compute.Backend

	mu       sync.Mutex
	programs map[string]*backend.Program
}

// A buildFunc builds the nodes that a program returns.
type buildFunc func(*backend.Inputs) []*graph.Node

// NewArithmetic returns an Arithmetic without programs.
func NewArithmetic(engine compute.Backend) *Arithmetic {
	return &Arithmetic{backend: engine, programs: map[string]*backend.Program{}}
}

// Compiled lists the programs that were needed so far.
func (a *Arithmetic) Compiled() []*backend.Program {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.programs))
}

// Close frees the programs.
func (a *Arithmetic) Close() {
	for _, p := range a.programs {
		p.Close()
	}
}

// program returns the program of a name, and compiles it if it is new.
func (a *Arithmetic) program(name string, build buildFunc) (*backend.Program, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p, ok := a.programs[name]; ok {
		return p, nil
	}
	p, err := backend.Compile(a.backend, name, build)
	if err != nil {
		return nil, err
	}
	p.InPlace = spendAll // the result takes the memory of what is used up
	a.programs[name] = p
	return p, nil
}

// run runs a program on the device of its first tensors, which it uses up.
func (a *Arithmetic) run(
	name string, build buildFunc, spent backend.Tensors, others ...*backend.DeviceTensor,
) (backend.Tensors, error) {
	defer spent.Release()
	p, err := a.program(name, build)
	if err != nil {
		return nil, err
	}
	given := backend.NamedTensors{}
	for i, t := range slices.Concat(spent, others) {
		given[itemKey(i)] = t
	}
	return p.Run(spent[0].Device(), given, func(name string) bool { return !slices.Contains(others, given[name]) })
}

func itemKey(i int) string { return fmt.Sprint("item ", i) }

// Add adds b to another tensor, which is used up; b is not.
func (a *Arithmetic) Add(to, b *backend.DeviceTensor) (*backend.DeviceTensor, error) {
	sum, err := a.run("adding "+to.Shape().String(), func(build *backend.Inputs) []*graph.Node {
		given := build.Input(itemKey(0), to.Shape())
		added := graph.Add(given, build.Input(itemKey(1), to.Shape()))
		build.Replace(given, added)
		return []*graph.Node{added}
	}, backend.Tensors{to}, b)
	if err != nil {
		return nil, err
	}
	return sum[0], nil
}

// Scale multiplies tensors by a number, in place.
func (a *Arithmetic) Scale(list backend.Tensors, factor float64) error {
	for i, t := range list {
		list[i] = nil
		name := fmt.Sprintf("%g times %s", factor, t.Shape())
		product, err := a.run(name, func(build *backend.Inputs) []*graph.Node {
			given := build.Input(itemKey(0), t.Shape())
			multiple := graph.MulScalar(given, factor)
			build.Replace(given, multiple)
			return []*graph.Node{multiple}
		}, backend.Tensors{t})
		if err != nil {
			return err
		}
		list[i] = product[0]
	}
	return nil
}

// A Layout lays float32 tensors end to end and cuts them into equal chunks. The last chunk is
// filled up with zeros.
type Layout struct {
	Tensors []network.Tensor
	Chunks  int
}

// Chunk returns the number of elements of a chunk.
func (l Layout) Chunk() int { return (l.size() + l.Chunks - 1) / l.Chunks }

func (l Layout) size() int {
	n := 0
	for _, t := range l.Tensors {
		n += int(t.Shape.Elements())
	}
	return n
}

func (l Layout) key() string {
	key := fmt.Sprintf("%d chunks of", l.Chunks)
	for _, t := range l.Tensors {
		key += fmt.Sprint(t.Shape)
	}
	return key
}

// Flatten turns tensors, which are used up, into chunks.
func (a *Arithmetic) Flatten(l Layout, list backend.Tensors) (backend.Tensors, error) {
	return a.run("flattening into "+l.key(), l.buildFlatten, list)
}

// Unflatten turns chunks, which are used up, back into tensors.
func (a *Arithmetic) Unflatten(l Layout, chunks backend.Tensors) (backend.Tensors, error) {
	return a.run("tensors from "+l.key(), l.buildUnflatten, chunks)
}

func (l Layout) buildFlatten(b *backend.Inputs) []*graph.Node {
	var flat []*graph.Node
	for i, t := range l.Tensors {
		x := b.Input(itemKey(i), shapes.Make(dtypes.Float32, t.Shape...))
		flat = append(flat, graph.Reshape(x, int(t.Shape.Elements())))
	}
	if fill := l.Chunk()*l.Chunks - l.size(); fill > 0 {
		flat = append(flat, graph.Zeros(b.Graph, shapes.Make(dtypes.Float32, fill)))
	}
	whole := graph.Concatenate(flat, 0)
	var chunks []*graph.Node
	for c := range l.Chunks {
		chunks = append(chunks, graph.Slice(whole, graph.AxisRange(c*l.Chunk(), (c+1)*l.Chunk())))
	}
	return chunks
}

func (l Layout) buildUnflatten(b *backend.Inputs) []*graph.Node {
	var chunks []*graph.Node
	for c := range l.Chunks {
		chunks = append(chunks, b.Input(itemKey(c), shapes.Make(dtypes.Float32, l.Chunk())))
	}
	whole := graph.Concatenate(chunks, 0)
	var tensors []*graph.Node
	from := 0
	for _, t := range l.Tensors {
		n := int(t.Shape.Elements())
		tensors = append(tensors, graph.Reshape(graph.Slice(whole, graph.AxisRange(from, from+n)), t.Shape...))
		from += n
	}
	return tensors
}
