package kernels

import (
	"psim/costmodel/network"

	"github.com/gomlx/gomlx/core/graph"
)

// layerNorm normalises rows, with gain and bias. It saves only its input, and computes the sums
// again.
type layerNorm struct {
	name string // of its buffer
	key  string // of its parameters, without .weight and .bias
	// first: no input gradient is needed
	first bool
}

// normEpsilon has GPT-2's value.
const normEpsilon = 1e-5

func (l layerNorm) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(l.name+".input", network.ForwardToInput, x)
	gain, bias := s.parameter(l.key+".weight"), s.parameter(l.key+".bias")
	y, _ := graph.InternalFusedOpCaller(func() *graph.Node {
		return graph.BackendFusedLayerNorm(x, []int{1}, normEpsilon, gain, bias)
	}, func() *graph.Node {
		centred, inverse := centre(x)
		return graph.Add(graph.Mul(graph.Mul(centred, inverse), row(gain)), row(bias))
	}, false)
	return y
}

// input makes sums along rows and columns by products. With c for the centred rows and r for the inverse
// deviations, the gradient is r·gain·dy - c·r³·mean(gain·dy·c) - r·mean(gain·dy).
func (l layerNorm) input(s *scope, dy *graph.Node) *graph.Node {
	if formOf(dy).pieces {
		return l.inputByPieces(s, dy)
	}
	centred, inverse := centre(s.saved(l.name + ".input"))
	along := graph.Mul(dy, centred)
	s.gradient(l.key+".weight", graph.Reshape(product(row(inverse), along), -1))
	s.gradient(l.key+".bias", graph.Reshape(columnSums(dy), -1))
	if l.first {
		return nil
	}
	gain := row(s.parameter(l.key + ".weight"))
	n := dy.Shape().Dim(-1)
	part := graph.MulScalar(inverse, 1/float64(n))
	slope := graph.Mul(graph.Mul(part, graph.Mul(inverse, inverse)), productTransposed(along, gain))
	shift := graph.Mul(part, productTransposed(dy, gain))
	dx := graph.Sub(graph.Mul(dy, product(inverse, gain)), graph.Mul(centred, repeatColumns(slope, n)))
	return graph.Sub(dx, repeatColumns(shift, n))
}

// inputByPieces makes the same sums by pieces. With n for the rows after centring and division, the gradient is
// r·(gain·dy - mean(gain·dy) - n·mean(gain·dy·n)).
func (l layerNorm) inputByPieces(s *scope, dy *graph.Node) *graph.Node {
	centred, inverse := centre(s.saved(l.name + ".input"))
	normed := graph.Mul(centred, inverse)
	s.gradient(l.key+".weight", graph.Reshape(columnSums(addPieces(graph.Mul(dy, normed), 0)), -1))
	s.gradient(l.key+".bias", graph.Reshape(columnSums(dy), -1))
	if l.first {
		return nil
	}
	scaled := graph.Mul(dy, row(s.parameter(l.key+".weight")))
	slope, shift := mean(graph.Mul(scaled, normed)), mean(scaled)
	return graph.Mul(inverse, graph.Sub(graph.Sub(scaled, shift), graph.Mul(normed, slope)))
}

// addPieces cuts a large matrix along an axis into equal pieces, and adds them.
func addPieces(x *graph.Node, axis int) *graph.Node {
	const pieces, large = 8, 256
	n := x.Shape().Dim(axis)
	if n < large || n%pieces != 0 {
		return x
	}
	var sum *graph.Node
	for at := 0; at < n; at += n / pieces {
		cut := []graph.SliceAxisSpec{graph.AxisRange(), graph.AxisRange()}
		cut[axis] = graph.AxisRange(at, at+n/pieces)
		if part := graph.Slice(x, cut...); sum == nil {
			sum = part
		} else {
			sum = graph.Add(sum, part)
		}
	}
	return sum
}

// centre returns rows with mean 0, and their inverse deviations.
func centre(x *graph.Node) (centred, inverse *graph.Node) {
	centred = graph.Sub(x, repeatColumns(mean(x), x.Shape().Dim(-1)))
	variance := mean(graph.Mul(centred, centred))
	return centred, graph.Reciprocal(graph.Sqrt(graph.AddScalar(variance, normEpsilon)))
}

func mean(x *graph.Node) *graph.Node {
	n := float64(x.Shape().Dim(-1))
	if formOf(x).pieces {
		x = addPieces(x, 1)
	}
	return graph.MulScalar(rowSums(x), 1/n)
}

func row(x *graph.Node) *graph.Node { return graph.Reshape(x, 1, -1) }
