package programs

import (
	"psim/costmodel/arch"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
)

// maxPool takes the largest of 2×2 pixels. It saves which one that was, the
// first where several are, as a number from 0 to 3.
type maxPool struct{ name string }

func (l maxPool) forward(s *scope, x *Node) *Node {
	parts := quarters(x)
	y := graph.Max(graph.Max(parts[0], parts[1]), graph.Max(parts[2], parts[3]))
	g := x.Graph()
	index := graph.BroadcastToDims(graph.Scalar(g, dtypes.Int64, 3), y.Shape().Dimensions...)
	for i := 2; i >= 0; i-- {
		index = graph.Where(graph.Equal(parts[i], y), graph.Scalar(g, dtypes.Int64, i), index)
	}
	s.save(l.name+".indices", arch.ForwardToInput, index)
	return y
}

// quarters returns the pixels at the four places of each square.
func quarters(x *Node) [4]*Node {
	d := x.Shape().Dimensions
	x = graph.Reshape(x, d[0], d[1]/2, 2, d[2]/2, 2, d[3])
	var parts [4]*Node
	for i := range parts {
		all := graph.AxisRange()
		part := graph.Slice(x, all, all, graph.AxisElem(i/2), all, graph.AxisElem(i%2), all)
		parts[i] = graph.Reshape(part, d[0], d[1]/2, d[2]/2, d[3])
	}
	return parts
}

// input puts each gradient where the largest pixel was.
func (l maxPool) input(s *scope, dy *Node) *Node {
	index := s.saved(l.name + ".indices")
	g, d := dy.Graph(), dy.Shape().Dimensions
	zero := graph.ScalarZero(g, dy.DType())
	var rows [2]*Node
	for i := range rows {
		var pair [2]*Node
		for j := range pair {
			here := graph.Equal(index, graph.Scalar(g, dtypes.Int64, 2*i+j))
			pair[j] = graph.Reshape(graph.Where(here, dy, zero), d[0], d[1], 1, d[2], 1, d[3])
		}
		rows[i] = graph.Concatenate(pair[:], 4)
	}
	return graph.Reshape(graph.Concatenate(rows[:], 2), d[0], 2*d[1], 2*d[2], d[3])
}

func (maxPool) weight(*scope) {}
