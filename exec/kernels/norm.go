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
	centred, inverse := centre(s.saved(l.name + ".input"))
	along := graph.Mul(dy, centred)
	s.gradient(l.key+".weight", graph.Reshape(product(row(inverse), along), -1))
	s.gradient(l.key+".bias", graph.Reshape(columnSums(dy), -1))
	gain := row(s.parameter(l.key + ".weight"))
	n := dy.Shape().Dim(-1)
	part := graph.MulScalar(inverse, 1/float64(n))
	slope := graph.Mul(graph.Mul(part, graph.Mul(inverse, inverse)), productTransposed(along, gain))
	shift := graph.Mul(part, productTransposed(dy, gain))
	dx := graph.Sub(graph.Mul(dy, product(inverse, gain)), graph.Mul(centred, repeatColumns(slope, n)))
	return graph.Sub(dx, repeatColumns(shift, n))
}

// centre returns rows with mean 0, and their inverse deviations.
func centre(x *graph.Node) (centred, inverse *graph.Node) {
	centred = graph.Sub(x, repeatColumns(mean(x), x.Shape().Dim(-1)))
	variance := mean(graph.Mul(centred, centred))
	return centred, graph.Reciprocal(graph.Sqrt(graph.AddScalar(variance, normEpsilon)))
}

func mean(x *graph.Node) *graph.Node {
	return graph.MulScalar(rowSums(x), 1/float64(x.Shape().Dim(-1)))
}

func row(x *graph.Node) *graph.Node { return graph.Reshape(x, 1, -1) }
