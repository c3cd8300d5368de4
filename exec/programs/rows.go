package programs

import (
	"psim/costmodel/network"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// layerNorm normalises rows, with gain and bias. Only its input is saved: the
// sums are made again.
type layerNorm struct {
	name string // of its buffer
	key  string // of its parameters, less .weight and .bias
}

// normEpsilon has GPT-2's value.
const normEpsilon = 1e-5

func (l layerNorm) forward(s *scope, x *Node) *Node {
	s.save(l.name+".input", network.ForwardToInput, x)
	gain, bias := s.parameter(l.key+".weight"), s.parameter(l.key+".bias")
	y, _ := graph.InternalFusedOpCaller(func() *Node {
		return graph.BackendFusedLayerNorm(x, []int{1}, normEpsilon, gain, bias)
	}, func() *Node {
		normal, _ := normalise(x)
		return graph.Add(graph.Mul(normal, row(gain)), row(bias))
	}, false)
	return y
}

// input makes sums along rows, and factors of whole rows and columns, by products where it
// can: the backend's sums and broadcasts are slow.
func (l layerNorm) input(s *scope, dy *Node) *Node {
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

// normalise makes rows of mean 0 and variance 1, and the inverse deviations.
func normalise(x *Node) (normal, inverse *Node) {
	centred := graph.Sub(x, mean(x))
	variance := mean(graph.Mul(centred, centred))
	inverse = graph.Reciprocal(graph.Sqrt(graph.AddScalar(variance, normEpsilon)))
	return graph.Mul(centred, inverse), inverse
}

func mean(x *Node) *Node {
	return graph.MulScalar(rowSums(x), 1/float64(x.Shape().Dim(-1)))
}

func row(x *Node) *Node { return graph.Reshape(x, 1, -1) }

// crossEntropy sums -log p(target) over the rows of logits whose target counts:
// those of a target below 0 do not. Its output gradient is a scalar that scales the
// gradient of that sum.
type crossEntropy struct {
	targetsName string // of the buffer
}

const logProbabilities = "loss.log_probabilities"

func (l crossEntropy) forward(s *scope, x *Node) *Node {
	rows := x.Shape().Dim(0)
	targets := s.targets(l.targetsName, rows)
	logs := graph.Sub(x, logSum(x))
	s.save(logProbabilities, network.ForwardToInput, logs)
	s.pin(l.targetsName, network.ForwardToInput, targets)
	picked := counted(targets, graph.Gather(logs, places(targets)))
	return graph.Neg(graph.Reshape(columnSums(graph.Reshape(picked, rows, 1))))
}

// logSum returns the logarithm of the sum of the exponentials of each row. A softmax's
// largest is the inverse of the sum that it divided by, which is inexact over many
// classes: what the probabilities add up to sets that right.
func logSum(x *Node) *Node {
	p := graph.Softmax(graph.Add(x, settled(x)))
	top, share := largest(x, p)
	return graph.Add(top, graph.Log(graph.Div(rowSums(p), share)))
}

// input returns (probabilities - 1 at the target)·scale, and 0 in rows that do not
// count.
func (l crossEntropy) input(s *scope, dy *Node) *Node {
	logs, targets := s.saved(logProbabilities), s.saved(l.targetsName)
	rows := logs.Shape().Dim(0)
	scale := counted(targets, graph.BroadcastToDims(dy, rows))
	p := graph.Softmax(logs) // themselves, as their sum is 1, but for rounding
	dx := graph.Mul(p, graph.Div(graph.Reshape(scale, rows, 1), rowSums(p)))
	return graph.ScatterSum(dx, places(targets), graph.Neg(scale), false, true)
}

// counted replaces the values of rows whose target does not count by 0.
func counted(targets, values *Node) *Node {
	counts := graph.GreaterOrEqual(targets, graph.ScalarZero(targets.Graph(), targets.DType()))
	return graph.Where(counts, values, graph.ScalarZero(values.Graph(), values.DType()))
}

// places returns the pairs (row, target); for a target below 0, any.
func places(targets *Node) *Node {
	n := targets.Shape().Dim(0)
	rows := graph.Iota(targets.Graph(), shapes.Make(dtypes.Int32, n, 1), 0)
	return graph.Concatenate([]*Node{rows, graph.Reshape(graph.MaxScalar(targets, 0), n, 1)}, 1)
}
