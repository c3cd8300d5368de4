package kernels

import (
	"math"

	"psim/costmodel/network"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
)

// gelu computes GPT-2's "GELU-new", x·(1+tanh(u))/2 with u = √(2/π)(x + 0.044715x³). As
// (1+tanh(u))/2 = 1/(1+exp(-2u)), it is x times a gate, the logistic function of 2u.
type gelu struct {
	name   string // of its buffer
	output string // the buffer in which the linear layer behind it saves its output, if that is trained
}

const geluCubic = 0.044715

func (l gelu) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(l.name+".input", network.ForwardToInput, x)
	return graph.Mul(x, geluGate(x, graph.Mul(x, x)))
}

// input uses the derivative gate·(1 + (x - y)·2u') of y = x·gate. The Go backend finds the gate from y/x,
// which avoids the exponential; near 0 it is 1/2. Where nobody has saved y, it is made again.
func (l gelu) input(s *scope, dy *graph.Node) *graph.Node {
	x := s.saved(l.name + ".input")
	square := graph.Mul(x, x)
	if !s.has(l.output) {
		gate := geluGate(x, square)
		return graph.Mul(dy, graph.Mul(gate, geluRest(x, graph.Mul(x, gate), square)))
	}
	y := s.saved(l.output)
	rest := geluRest(x, y, square)
	if formOf(x).logistic {
		return graph.Mul(dy, graph.Mul(geluGate(x, square), rest))
	}
	half := graph.Scalar(x.Graph(), x.DType(), 0.5)
	gate := graph.Where(graph.LessThan(square, graph.Scalar(x.Graph(), x.DType(), 1e-30)), half, graph.Div(y, x))
	return graph.Mul(dy, graph.Mul(gate, rest))
}

// geluRest returns 1 + (x - y)·2u'.
func geluRest(x, y, square *graph.Node) *graph.Node {
	slope := graph.AddScalar(graph.MulScalar(square, 6*geluCubic*math.Sqrt(2/math.Pi)), 2*math.Sqrt(2/math.Pi))
	return graph.OnePlus(graph.Mul(graph.Sub(x, y), slope))
}

// geluGate returns 1/(1+exp(-2u)).
func geluGate(x, square *graph.Node) *graph.Node {
	scale := 2 * math.Sqrt(2/math.Pi)
	return logistic(graph.Mul(x, graph.AddScalar(graph.MulScalar(square, scale*geluCubic), scale)))
}

// logistic returns 1/(1+exp(-x)) of rows, from their softmax: the share of exp(x) in
// exp(x)+exp(0). The softmax of the Go backend has an exponential of its own, three times as
// fast as Expm1, and as Exp and Tanh after a matrix product. Above 30 the result is 1.
func logistic(x *graph.Node) *graph.Node {
	if formOf(x).logistic {
		return graph.Logistic(x)
	}
	x = graph.Min(x, graph.AddScalar(zeroAfterCopy(x), 30.0))
	p := graph.Softmax(x)
	top, share := largestOfRows(x, p)
	one := graph.Mul(share, graph.Exp(graph.Neg(top)))
	return graph.Div(p, graph.Add(p, repeatColumns(one, x.Shape().Dim(1))))
}

// largestOfRows returns the largest value of each row, and the value at its place in another
// tensor.
func largestOfRows(x, other *graph.Node) (top, there *graph.Node) {
	best := targetIndices(graph.ArgMax(x, -1, dtypes.Int32))
	at := func(values *graph.Node) *graph.Node { return graph.Reshape(graph.Gather(values, best), -1, 1) }
	return at(x), at(other)
}

// relu saves its output, which is usually the next layer's saved input as well.
type relu struct{ name string }

func (l relu) forward(s *scope, x *graph.Node) *graph.Node {
	y := graph.Max(x, zeroAfterCopy(x))
	s.save(l.name+".output", network.ForwardToInput, y)
	return y
}

func (l relu) input(s *scope, dy *graph.Node) *graph.Node {
	y := s.saved(l.name + ".output")
	zero := graph.ScalarZero(y.Graph(), y.DType())
	return graph.Where(graph.GreaterThan(y, zero), dy, zero)
}
