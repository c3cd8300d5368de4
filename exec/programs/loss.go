package programs

import (
	"psim/costmodel/arch"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// crossEntropy sums -log p(target) over all rows of logits. Its output
// gradient is a scalar that scales the gradient of that sum.
type crossEntropy struct {
	targetsName string // of the buffer
}

const logProbabilities = "loss.log_probabilities"

func (l crossEntropy) forward(s *scope, x *Node) *Node {
	rows := x.Shape().Dim(0)
	targets := s.targets(l.targetsName, rows)
	shifted := graph.Sub(x, largest(x))
	sums := rowSums(graph.OnePlus(graph.Expm1(shifted)))
	logs := graph.Sub(shifted, graph.Log(sums))
	s.save(logProbabilities, arch.ForwardToInput, logs)
	s.pin(l.targetsName, arch.ForwardToInput, targets)
	picked := graph.Gather(logs, places(targets))
	return graph.Neg(graph.Reshape(columnSums(graph.Reshape(picked, rows, 1))))
}

// input returns (probabilities - 1 at the target)·scale.
func (l crossEntropy) input(s *scope, dy *Node) *Node {
	logs := s.saved(logProbabilities)
	dx := graph.Mul(graph.OnePlus(graph.Expm1(logs)), dy)
	rows := logs.Shape().Dim(0)
	less := graph.BroadcastToDims(graph.Neg(dy), rows)
	return graph.ScatterSum(dx, places(s.saved(l.targetsName)), less, false, true)
}

func (crossEntropy) weight(*scope) {}

// places returns the pairs (row, target).
func places(targets *Node) *Node {
	n := targets.Shape().Dim(0)
	rows := graph.Iota(targets.Graph(), shapes.Make(dtypes.Int32, n, 1), 0)
	return graph.Concatenate([]*Node{rows, graph.Reshape(targets, n, 1)}, 1)
}
