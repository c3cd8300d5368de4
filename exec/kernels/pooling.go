package kernels

import (
	"psim/costmodel/network"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
)

// maxPool takes the largest of 2×2 pixels. It saves which one that is (the first if several are
// equal), as a number from 0 to 3.
type maxPool struct{ name string }

func (l maxPool) forward(s *scope, x *graph.Node) *graph.Node {
	parts := quarters(x)
	y := graph.Max(graph.Max(parts[0], parts[1]), graph.Max(parts[2], parts[3]))
	g := x.Graph()
	index := graph.BroadcastToDims(graph.Scalar(g, dtypes.Int64, 3), y.Shape().Dimensions...)
	for i := 2; i >= 0; i-- {
		index = graph.Where(graph.Equal(parts[i], y), graph.Scalar(g, dtypes.Int64, i), index)
	}
	s.save(l.name+".indices", network.ForwardToInput, index)
	return y
}

// quarters returns the pixels at the four places of each square.
func quarters(x *graph.Node) [4]*graph.Node {
	d := x.Shape().Dimensions
	x = graph.Reshape(x, d[0], d[1]/2, 2, d[2]/2, 2, d[3])
	var parts [4]*graph.Node
	for i := range parts {
		all := graph.AxisRange()
		part := graph.Slice(x, all, all, graph.AxisElem(i/2), all, graph.AxisElem(i%2), all)
		parts[i] = graph.Reshape(part, d[0], d[1]/2, d[2]/2, d[3])
	}
	return parts
}

// input puts each gradient where the largest pixel was.
func (l maxPool) input(s *scope, dy *graph.Node) *graph.Node {
	index := s.saved(l.name + ".indices")
	g, d := dy.Graph(), dy.Shape().Dimensions
	zero := graph.ScalarZero(g, dy.DType())
	var rows [2]*graph.Node
	for i := range rows {
		var pair [2]*graph.Node
		for j := range pair {
			here := graph.Equal(index, graph.Scalar(g, dtypes.Int64, 2*i+j))
			pair[j] = graph.Reshape(graph.Where(here, dy, zero), d[0], d[1], 1, d[2], 1, d[3])
		}
		rows[i] = graph.Concatenate(pair[:], 4)
	}
	return graph.Reshape(graph.Concatenate(rows[:], 2), d[0], 2*d[1], 2*d[2], d[3])
}

// flatten turns images into rows, channel by channel as PyTorch does.
type flatten struct{ height, width int }

func (flatten) forward(_ *scope, x *graph.Node) *graph.Node {
	n := x.Shape().Dim(0)
	return graph.Reshape(channelsFirst(x), n, -1)
}

func (l flatten) input(_ *scope, dy *graph.Node) *graph.Node {
	n := dy.Shape().Dim(0)
	dx := graph.Reshape(dy, n, -1, l.height, l.width)
	if l.height*l.width == 1 {
		return graph.Reshape(dx, n, 1, 1, -1)
	}
	return graph.TransposeAllAxes(dx, 0, 2, 3, 1)
}

// channelsFirst turns rows × columns × channels into channels × rows × columns.
func channelsFirst(x *graph.Node) *graph.Node {
	if d := x.Shape().Dimensions; d[1]*d[2] == 1 {
		return graph.Reshape(x, d[0], d[3], 1, 1)
	}
	return graph.TransposeAllAxes(x, 0, 3, 1, 2)
}

// repeatPixel repeats one pixel: the average pooling to 7×7 of an image of 1×1.
type repeatPixel struct{ height, width int }

func (l repeatPixel) forward(_ *scope, x *graph.Node) *graph.Node {
	d := x.Shape().Dimensions
	return graph.BroadcastToDims(x, d[0], l.height, l.width, d[3])
}

func (l repeatPixel) input(_ *scope, dy *graph.Node) *graph.Node {
	d := dy.Shape().Dimensions
	sums := graph.ReduceSum(graph.Reshape(dy, d[0], l.height*l.width, d[3]), 1)
	return graph.Reshape(sums, d[0], 1, 1, d[3])
}
