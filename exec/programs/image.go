package programs

import (
	"github.com/gomlx/gomlx/core/graph"
)

// flatten turns images into rows, channel by channel as PyTorch does.
type flatten struct{ height, width int }

func (flatten) forward(_ *scope, x *Node) *Node {
	n := x.Shape().Dim(0)
	return graph.Reshape(channelsFirst(x), n, -1)
}

func (l flatten) input(_ *scope, dy *Node) *Node {
	n := dy.Shape().Dim(0)
	dx := graph.Reshape(dy, n, -1, l.height, l.width)
	if l.height*l.width == 1 {
		return graph.Reshape(dx, n, 1, 1, -1)
	}
	return graph.TransposeAllAxes(dx, 0, 2, 3, 1)
}

func (flatten) weight(*scope) {}

// channelsFirst turns rows × columns × channels into channels × rows × columns.
func channelsFirst(x *Node) *Node {
	if d := x.Shape().Dimensions; d[1]*d[2] == 1 {
		return graph.Reshape(x, d[0], d[3], 1, 1)
	}
	return graph.TransposeAllAxes(x, 0, 3, 1, 2)
}

// spread repeats one pixel: the average pooling to 7×7 of an image of 1×1.
type spread struct{ height, width int }

func (l spread) forward(_ *scope, x *Node) *Node {
	d := x.Shape().Dimensions
	return graph.BroadcastToDims(x, d[0], l.height, l.width, d[3])
}

func (l spread) input(_ *scope, dy *Node) *Node {
	d := dy.Shape().Dimensions
	sums := graph.ReduceSum(graph.Reshape(dy, d[0], l.height*l.width, d[3]), 1)
	return graph.Reshape(sums, d[0], 1, 1, d[3])
}

func (spread) weight(*scope) {}
