package programs

import (
	"fmt"
	"slices"
	"sync"

	"psim/costmodel/network"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Arithmetic is what collectives and averages compute on the devices of a
// backend: sums, multiples, and tensors laid end to end in chunks. Programs are
// compiled when first needed. Its methods may be called concurrently.
type Arithmetic struct {
	backend compute.Backend

	mu       sync.Mutex
	programs map[string]*program
}

// NewArithmetic has no programs yet.
func NewArithmetic(backend compute.Backend) *Arithmetic {
	return &Arithmetic{backend: backend, programs: map[string]*program{}}
}

// Close frees the programs.
func (a *Arithmetic) Close() {
	for _, p := range a.programs {
		p.close()
	}
}

// program compiles what is not yet there.
func (a *Arithmetic) program(name string, build func(*builder) []*Node) (*program, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p, ok := a.programs[name]; ok {
		return p, nil
	}
	p, err := compile(a.backend, name, build)
	if err != nil {
		return nil, err
	}
	p.inPlace = all // the result takes the place of what is used up
	a.programs[name] = p
	return p, nil
}

// run runs a program on the device of its first tensors, which it uses up.
func (a *Arithmetic) run(name string, build func(*builder) []*Node, spent List, others ...*Tensor) (List, error) {
	defer spent.Release()
	p, err := a.program(name, build)
	if err != nil {
		return nil, err
	}
	given := map[string]*Tensor{}
	for i, t := range slices.Concat(spent, others) {
		given[itemKey(i)] = t
	}
	return p.run(spent[0].device, given, func(name string) bool { return !slices.Contains(others, given[name]) })
}

func itemKey(i int) string { return fmt.Sprint("item ", i) }

// Add adds b to a in a's place. a is used up, b is not.
func (a *Arithmetic) Add(to, b *Tensor) (*Tensor, error) {
	sum, err := a.run("adding "+to.shape.String(), func(build *builder) []*Node {
		return []*Node{graph.Add(build.input(itemKey(0), to.shape), build.input(itemKey(1), to.shape))}
	}, List{to}, b)
	if err != nil {
		return nil, err
	}
	return sum[0], nil
}

// Scale multiplies tensors by a number, in their places.
func (a *Arithmetic) Scale(list List, factor float64) error {
	for i, t := range list {
		list[i] = nil
		product, err := a.run(fmt.Sprintf("%g times %s", factor, t.shape), func(build *builder) []*Node {
			return []*Node{graph.MulScalar(build.input(itemKey(0), t.shape), factor)}
		}, List{t})
		if err != nil {
			return err
		}
		list[i] = product[0]
	}
	return nil
}

// A Layout lays float32 tensors end to end and cuts them into equal chunks, of
// which the last is filled up with zeros.
type Layout struct {
	Tensors []network.Tensor
	Chunks  int
}

// Chunk is the number of elements of one chunk.
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

// Flatten turns tensors into chunks. The tensors are used up.
func (a *Arithmetic) Flatten(l Layout, list List) (List, error) {
	return a.run("flattening into "+l.key(), func(b *builder) []*Node { return buildFlatten(b, l) }, list)
}

// Unflatten turns chunks back into tensors. The chunks are used up.
func (a *Arithmetic) Unflatten(l Layout, chunks List) (List, error) {
	return a.run("tensors from "+l.key(), func(b *builder) []*Node { return buildUnflatten(b, l) }, chunks)
}

func buildFlatten(b *builder, l Layout) []*Node {
	var flat []*Node
	for i, t := range l.Tensors {
		x := b.input(itemKey(i), shapes.Make(dtypes.Float32, t.Shape...))
		flat = append(flat, graph.Reshape(x, int(t.Shape.Elements())))
	}
	if fill := l.Chunk()*l.Chunks - l.size(); fill > 0 {
		flat = append(flat, graph.Zeros(b.graph, shapes.Make(dtypes.Float32, fill)))
	}
	whole := graph.Concatenate(flat, 0)
	var chunks []*Node
	for c := range l.Chunks {
		chunks = append(chunks, graph.Slice(whole, graph.AxisRange(c*l.Chunk(), (c+1)*l.Chunk())))
	}
	return chunks
}

func buildUnflatten(b *builder, l Layout) []*Node {
	var chunks []*Node
	for c := range l.Chunks {
		chunks = append(chunks, b.input(itemKey(c), shapes.Make(dtypes.Float32, l.Chunk())))
	}
	whole := graph.Concatenate(chunks, 0)
	var tensors []*Node
	from := 0
	for _, t := range l.Tensors {
		n := int(t.Shape.Elements())
		tensors = append(tensors, graph.Reshape(graph.Slice(whole, graph.AxisRange(from, from+n)), t.Shape...))
		from += n
	}
	return tensors
}
