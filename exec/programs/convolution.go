package programs

import (
	"psim/costmodel/arch"

	"github.com/gomlx/gomlx/core/graph"
)

// convolution computes 3×3 with padding 1 and a bias, as one product: a row of nine
// pixels for each pixel. Its weight is [out, in, 3, 3].
type convolution struct {
	name  string // of buffers, and of parameters less .weight and .bias
	first bool   // no input gradient is wanted
}

func (l convolution) forward(s *scope, x *Node) *Node {
	s.save(l.name+".input", arch.ForwardToWeight, x)
	w := s.parameter(l.name + ".weight")
	out := w.Shape().Dim(0)
	w = graph.Reshape(graph.TransposeAllAxes(w, 0, 2, 3, 1), out, -1)
	y := graph.Add(productTransposed(patches(x), w), row(s.parameter(l.name+".bias")))
	d := x.Shape().Dimensions
	return graph.Reshape(y, d[0], d[1], d[2], out)
}

// input convolves dy with the weight turned by half a turn.
func (l convolution) input(s *scope, dy *Node) *Node {
	s.keep(l.name+".output_gradient", dy)
	if l.first {
		return nil
	}
	w := s.parameter(l.name + ".weight")
	in := w.Shape().Dim(1)
	w = graph.Reshape(graph.TransposeAllAxes(graph.Reverse(w, 2, 3), 1, 2, 3, 0), in, -1)
	d := dy.Shape().Dimensions
	return graph.Reshape(productTransposed(patches(dy), w), d[0], d[1], d[2], in)
}

func (l convolution) weight(s *scope) {
	x, dy := s.saved(l.name+".input"), s.saved(l.name+".output_gradient")
	in, out := x.Shape().Dim(3), dy.Shape().Dim(3)
	dy = graph.Reshape(dy, -1, out)
	dw := graph.Reshape(outer(dy, patches(x)), out, 3, 3, in)
	s.gradient(l.name+".weight", graph.TransposeAllAxes(dw, 0, 3, 1, 2))
	s.gradient(l.name+".bias", graph.Reshape(columnSums(dy), -1))
}

// patches has a row for each pixel: the nine pixels around it, zero outside the
// image.
func patches(x *Node) *Node {
	d := x.Shape().Dimensions
	n, height, width, channels := d[0], d[1], d[2], d[3]
	side := zeros(x, n, height, 1, channels)
	x = graph.Concatenate([]*Node{side, x, side}, 2)
	end := zeros(x, n, 1, width+2, channels)
	x = graph.Concatenate([]*Node{end, x, end}, 1)
	var around []*Node
	for i := range 3 {
		for j := range 3 {
			all := graph.AxisRange()
			around = append(around, graph.Slice(x, all, graph.AxisRange(i, i+height), graph.AxisRange(j, j+width), all))
		}
	}
	return graph.Reshape(graph.Concatenate(around, 3), n*height*width, 9*channels)
}
