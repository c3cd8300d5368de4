package kernels

import (
	"math"

	"psim/costmodel/network"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// attention computes the causal core between the products of c_attn and c_proj. It has one
// matrix for every sample and head. The saved q is already scaled.
type attention struct {
	samples, heads, sequence, width int // width is the width of a head

	dropout chain // of the probabilities; may be empty
}

func (a attention) forward(s *scope, x *graph.Node) *graph.Node {
	q := graph.MulScalar(a.split(x, 0), a.scale())
	k, v := a.split(x, 1), a.split(x, 2)
	p := graph.Softmax(a.mask(productTransposed(q, k)))
	s.save("attn.q", network.ForwardToInput, q)
	s.save("attn.k", network.ForwardToInput, k)
	s.save("attn.v", network.ForwardToInput, v)
	s.save("attn.softmax.output", network.ForwardToInput, p)
	kept := a.dropout.forward(s, p)
	s.save("attn.attn_dropout.output", network.ForwardToInput, kept) // p itself without dropout
	return a.join(product(kept, v))
}

func (a attention) input(s *scope, dy *graph.Node) *graph.Node {
	dc := a.split(dy, 0)
	p := s.saved("attn.softmax.output")
	dp := a.dropout.input(s, productTransposed(dc, s.saved("attn.v")))
	dv := product(graph.Transpose(s.saved("attn.attn_dropout.output"), 1, 2), dc)
	along := graph.Mul(dp, p)
	ds := graph.Sub(along, graph.Mul(p, repeatColumns(rowSums(along), a.sequence)))
	dq := graph.MulScalar(product(ds, s.saved("attn.k")), a.scale())
	dk := product(graph.Transpose(ds, 1, 2), s.saved("attn.q"))
	return graph.Concatenate([]*graph.Node{a.join(dq), a.join(dk), a.join(dv)}, 1)
}

func (a attention) scale() float64 { return 1 / math.Sqrt(float64(a.width)) }

// split takes the part-th block of columns, which is as wide as all heads, and splits it into
// matrices [sequence, width].
func (a attention) split(x *graph.Node, part int) *graph.Node {
	all := a.heads * a.width
	if x.Shape().Dim(1) != all {
		x = graph.Slice(x, graph.AxisRange(), graph.AxisRange(part*all, (part+1)*all))
	}
	x = graph.Reshape(x, a.samples, a.sequence, a.heads, a.width)
	return graph.Reshape(graph.Transpose(x, 1, 2), a.samples*a.heads, a.sequence, a.width)
}

// join undoes split.
func (a attention) join(x *graph.Node) *graph.Node {
	x = graph.Reshape(x, a.samples, a.heads, a.sequence, a.width)
	return graph.Reshape(graph.Transpose(x, 1, 2), a.samples*a.sequence, a.heads*a.width)
}

// mask hides later keys from a query.
func (a attention) mask(scores *graph.Node) *graph.Node {
	g := scores.Graph()
	square := shapes.Make(dtypes.Int32, 1, a.sequence, a.sequence)
	later := graph.GreaterThan(graph.Iota(g, square, 2), graph.Iota(g, square, 1))
	hide := graph.MulScalar(graph.ConvertDType(later, scores.DType()), -1e9)
	every := repeatRows(graph.Add(hide, zeroAfterCopy(scores)), scores.Shape().Dim(0))
	return graph.Add(scores, graph.Reshape(every, scores.Shape().Dimensions...))
}
