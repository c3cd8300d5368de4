package kernels

import (
	"psim/costmodel/network"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// convolution computes 3×3 with padding 1 and a bias. Its weight is [out, in, 3, 3].
type convolution struct {
	name  string // of buffers, and of parameters without .weight and .bias
	first bool   // no input gradient is needed
}

func (l convolution) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(l.name+".input", network.ForwardToWeight, x)
	w, bias := s.parameter(l.name+".weight"), s.parameter(l.name+".bias")
	out, in := w.Shape().Dim(0), w.Shape().Dim(1)
	if formOf(x).convolution {
		return addBias(ownConvolution(x, w), bias)
	}
	if tiles, ok := l.tile(x, out); ok {
		return tiles.convolve(x, w, bias, false)
	}
	if in < narrowChannels {
		return addBias(byWindows(x, w), bias)
	}
	taps := graph.BroadcastToDims(graph.Reshape(identity(w, 9), 1, 9, 9), out, 9, 9)
	w = productTransposed(taps, graph.Reshape(w, out, in, 9)) // [out, 9, in]
	y := convolve(x, out, [3]int{2, 1, 0}, func(x *graph.Node, from, to int) *graph.Node {
		return productTransposed(x, graph.Reshape(cutTaps(w, 1, from, to), out, -1))
	})
	return addBias(y, bias)
}

func addBias(y, bias *graph.Node) *graph.Node {
	d := y.Shape().Dimensions
	return graph.Add(y, graph.Reshape(repeatRows(bias, d[0]*d[1]*d[2]), d...))
}

// byWindows multiplies windows by the weight.
func byWindows(x, w *graph.Node) *graph.Node {
	d, out := x.Shape().Dimensions, w.Shape().Dim(0)
	return graph.Reshape(productTransposed(windows(x), graph.Reshape(w, out, -1)), d[0], d[1], d[2], out)
}

// input convolves dy with the weight rotated by 180 degrees.
func (l convolution) input(s *scope, dy *graph.Node) *graph.Node {
	s.keep(l.name+".output_gradient", dy)
	if l.first {
		return nil
	}
	w := s.parameter(l.name + ".weight")
	in := w.Shape().Dim(1)
	if formOf(dy).convolution {
		return ownInputGradient(dy, w)
	}
	if tiles, ok := l.tile(dy, in); ok {
		return tiles.convolve(dy, w, nil, true)
	}
	w = productTransposed(identity(w, 9), graph.Reshape(w, -1, 9)) // [9, out × in]
	return convolve(dy, in, [3]int{0, 1, 2}, func(dy *graph.Node, from, to int) *graph.Node {
		return product(dy, graph.Reshape(cutTaps(w, 0, from, to), -1, in))
	})
}

func (l convolution) weight(s *scope) {
	x, dy := s.saved(l.name+".input"), s.saved(l.name+".output_gradient")
	in, out := x.Shape().Dim(3), dy.Shape().Dim(3)
	rows := graph.Reshape(dy, -1, out)
	s.gradient(l.name+".bias", graph.Reshape(columnSums(rows), -1))
	if formOf(x).convolution {
		s.gradient(l.name+".weight", crossedGradients(x, dy))
		return
	}
	var dw *graph.Node
	if in < narrowChannels || rows.Shape().Dim(0) < out {
		dw = product(graph.Transpose(rows, 0, 1), windows(x))
	} else {
		dw = tapGradients(x, dy)
	}
	s.gradient(l.name+".weight", graph.Reshape(dw, out, in, 3, 3))
}

// narrowChannels bounds the channels below which images make poor products.
const narrowChannels = 8

// windows puts the nine pixels around each pixel into its row, channel by channel.
func windows(x *graph.Node) *graph.Node {
	d := x.Shape().Dimensions
	zero, one := graph.ScalarZero(x.Graph(), x.DType()), compute.PadAxis{Start: 1, End: 1}
	x = graph.Pad(x, zero, compute.PadAxis{}, one, one, compute.PadAxis{})
	var taps []*graph.Node
	for i := range 9 {
		tap := graph.Slice(x, graph.AxisRange(), graph.AxisRange(i/3, i/3+d[1]), graph.AxisRange(i%3, i%3+d[2]))
		taps = append(taps, graph.Reshape(tap, -1, 1))
	}
	return graph.Reshape(graph.Concatenate(taps, 1), d[0]*d[1]*d[2], -1)
}

// tapGradients makes the weight's gradient, with a product for each tap.
func tapGradients(x, dy *graph.Node) *graph.Node {
	line := x.Shape().Dim(2) + 1
	rows := pixels(dy)
	turned := graph.Transpose(rows, 0, 1)
	if out := rows.Shape().Dim(1); out <= 64 {
		turned = productTransposed(identity(dy, out), rows)
	}
	x = padAxis(pixels(x), 0, line+1, line+1)
	var taps []*graph.Node
	for i := range 9 {
		moved := i/3*line + i%3
		tap := product(padAxis(turned, 1, moved, 2*line+2-moved), x)
		taps = append(taps, graph.Reshape(tap, -1, 1))
	}
	return graph.Concatenate(taps, 1)
}

// identity returns an identity matrix of n rows. Its product with a transposed matrix of n
// columns is a transposition, in half the time of the backend's own.
func identity(like *graph.Node, n int) *graph.Node {
	square := shapes.Make(dtypes.Int32, n, n)
	g := like.Graph()
	return graph.ConvertDType(graph.Equal(graph.Iota(g, square, 0), graph.Iota(g, square, 1)), like.DType())
}

// cutTaps returns some of the nine taps along an axis.
func cutTaps(w *graph.Node, axis, from, to int) *graph.Node {
	if to-from == 9 {
		return w
	}
	ranges := []graph.SliceAxisSpec{graph.AxisRange(), graph.AxisRange(), graph.AxisRange()}[:w.Rank()]
	ranges[axis] = graph.AxisRange(from, to)
	return graph.Slice(w, ranges...)
}

// convolve computes 3×3 with padding 1. Images are laid end to end, with zeros behind every
// line and every image, so that the neighbours of all pixels are at the same distances; before
// says how far the pixels of the taps are moved down, in lines and in pixels. Multiply returns
// the product of the pixels of some taps and their weights. It is called for one line of taps
// at a time, whose results are then moved; or, if the images are small compared with the
// weight, for all nine at once, so that the weight is not cut.
func convolve(
	x *graph.Node, out int, before [3]int, multiply func(x *graph.Node, from, to int) *graph.Node,
) *graph.Node {
	d := x.Shape().Dimensions
	n, height, line := d[0], d[1]+1, d[2]+1
	more := (2*line + 1 + height*line) / (height * line) // images, as room for moving down
	var y *graph.Node
	if n*height*line < 3*out {
		var all []int
		for _, above := range before {
			all = append(all, above*line+before[0], above*line+before[1], above*line+before[2])
		}
		reach := 2*line + 2
		y = padAxis(multiply(neighbours(x, reach, all), 0, 9), 0, 0, more*height*line-reach)
	} else {
		three := neighbours(x, 2, before[:])
		for i, above := range before {
			part := padAxis(multiply(three, 3*i, 3*i+3), 0, above*line, (more*height-above)*line-2)
			if y != nil {
				part = graph.Add(y, part)
			}
			y = part
		}
	}
	y = graph.Reshape(y, n+more, height, line, out)
	return graph.Slice(y, graph.AxisRange(0, n), graph.AxisRangeToEnd(1), graph.AxisRangeToEnd(1))
}

// pixels has a row for each pixel, with a row of zeros behind every line and a line of zeros
// behind every image.
func pixels(x *graph.Node) *graph.Node {
	one := compute.PadAxis{End: 1}
	zero := graph.ScalarZero(x.Graph(), x.DType())
	return graph.Reshape(graph.Pad(x, zero, compute.PadAxis{}, one, one, compute.PadAxis{}), -1, x.Shape().Dim(3))
}

// neighbours puts several pixels into each row: those of the rows that come before it by these
// distances, which are at most reach.
func neighbours(x *graph.Node, reach int, before []int) *graph.Node {
	x = pixels(x)
	var columns []*graph.Node
	for _, b := range before {
		columns = append(columns, padAxis(x, 0, b, reach-b))
	}
	return graph.Concatenate(columns, 1)
}

// padAxis puts zeros before and after x along an axis of a matrix.
func padAxis(x *graph.Node, axis, before, after int) *graph.Node {
	parts := []*graph.Node{x}
	dims := x.Shape().Clone().Dimensions
	if dims[axis] = before; before > 0 {
		parts = []*graph.Node{zeros(x, dims...), x}
	}
	if after > 0 {
		dims = x.Shape().Clone().Dimensions
		dims[axis] = after
		parts = append(parts, zeros(x, dims...))
	}
	return graph.Concatenate(parts, axis)
}
