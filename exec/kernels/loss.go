package kernels

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"psim/costmodel/network"
)

// crossEntropy sums -log p(target) over the rows of logits whose target counts; targets below 0
// do not. Its output gradient is a scalar, which scales the gradient of that sum.
type crossEntropy struct {
	targetsName string // of the buffer
}

// logProbabilities names the saved logarithms of the probabilities.
const logProbabilities = "loss.log_probabilities"

func (l crossEntropy) forward(s *scope, x *graph.Node) *graph.Node {
	rows := x.Shape().Dim(0)
	targets := s.targets(l.targetsName, rows)
	logs := graph.Sub(x, repeatColumns(logSum(x), x.Shape().Dim(1)))
	s.save(logProbabilities, network.ForwardToInput, logs)
	s.pin(l.targetsName, network.ForwardToInput, targets)
	picked := maskIgnored(targets, graph.Gather(logs, targetIndices(targets)))
	return graph.Neg(graph.Reshape(columnSums(graph.Reshape(picked, rows, 1))))
}

// logSum returns the logarithm of the sum of the exponentials of each row. The largest value of
// a softmax is the inverse of the sum that it divided by, but inexact over many classes; the
// sum of the probabilities corrects that.
func logSum(x *graph.Node) *graph.Node {
	if formOf(x).entropy {
		top := graph.ReduceAndKeep(x, graph.ReduceMax, -1)
		return graph.Add(top, graph.Log(rowSums(graph.Exp(graph.Sub(x, top)))))
	}
	p := graph.Softmax(graph.Add(x, zeroAfterCopy(x)))
	top, share := largestOfRows(x, p)
	return graph.Add(top, graph.Log(graph.Div(rowSums(p), share)))
}

// input returns (probabilities - 1 at the target)·scale, and 0 in rows that do not count.
func (l crossEntropy) input(s *scope, dy *graph.Node) *graph.Node {
	logs, targets := s.saved(logProbabilities), s.saved(l.targetsName)
	rows := logs.Shape().Dim(0)
	scale := maskIgnored(targets, graph.BroadcastToDims(dy, rows))
	if formOf(dy).entropy {
		classes := graph.Iota(dy.Graph(), shapes.Make(dtypes.Int32, logs.Shape().Dimensions...), 1)
		target := graph.Equal(classes, repeatColumns(graph.Reshape(targets, rows, 1), logs.Shape().Dim(1)))
		p := graph.Sub(graph.Exp(logs), graph.ConvertDType(target, logs.DType()))
		return graph.Mul(p, graph.Reshape(scale, rows, 1))
	}
	p := graph.Softmax(logs) // equals exp(logs) up to rounding, as that sums to 1
	dx := graph.Mul(p, repeatColumns(graph.Div(graph.Reshape(scale, rows, 1), rowSums(p)), logs.Shape().Dim(1)))
	return graph.ScatterSum(dx, targetIndices(targets), graph.Neg(scale), false, true)
}

// maskIgnored replaces values by 0 in rows whose target does not count.
func maskIgnored(targets, values *graph.Node) *graph.Node {
	counts := graph.GreaterOrEqual(targets, graph.ScalarZero(targets.Graph(), targets.DType()))
	return graph.Where(counts, values, graph.ScalarZero(values.Graph(), values.DType()))
}

// targetIndices returns the pairs (row, target), with target 0 where it is below 0.
func targetIndices(targets *graph.Node) *graph.Node {
	n := targets.Shape().Dim(0)
	rows := graph.Iota(targets.Graph(), shapes.Make(dtypes.Int32, n, 1), 0)
	return graph.Concatenate([]*graph.Node{rows, graph.Reshape(graph.MaxScalar(targets, 0), n, 1)}, 1)
}
