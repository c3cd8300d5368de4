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
		normal, _ := normalise(x)
		return graph.Add(graph.Mul(normal, row(gain)), row(bias))
	}, false)
	return y
}

// input makes sums along rows, and factors of whole rows and columns, by products where it can,
// because the backend's sums and broadcasts are slow.
func (l layerNorm) input(s *scope, dy *graph.Node) *graph.Node {
	normal, inverse := normalise(s.saved(l.name + ".input"))
	along := graph.Mul(dy, normal)
	s.gradient(l.key+".weight", graph.Reshape(columnSums(along), -1))
	s.gradient(l.key+".bias", graph.Reshape(columnSums(dy), -1))
	gain := row(s.parameter(l.key + ".weight"))
	part := graph.MulScalar(inverse, 1/float64(dy.Shape().Dim(-1)))
	slope := graph.Mul(part, productTransposed(along, gain))
	shift := graph.Mul(part, productTransposed(dy, gain))
	dx := graph.Sub(graph.Mul(dy, product(inverse, gain)), graph.Mul(normal, slope))
	return graph.Sub(dx, shift)
}

// normalise returns rows with mean 0 and variance 1, and the inverse deviations.
func normalise(x *graph.Node) (normal, inverse *graph.Node) {
	centred := graph.Sub(x, mean(x))
	variance := mean(graph.Mul(centred, centred))
	inverse = graph.Reciprocal(graph.Sqrt(graph.AddScalar(variance, normEpsilon)))
	return graph.Mul(centred, inverse), inverse
}

func mean(x *graph.Node) *graph.Node {
	return graph.MulScalar(rowSums(x), 1/float64(x.Shape().Dim(-1)))
}

func row(x *graph.Node) *graph.Node { return graph.Reshape(x, 1, -1) }
