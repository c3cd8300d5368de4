package programs

import (
	"psim/costmodel/arch"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// convolution computes 3×3 with padding 1 and a bias. Its weight is [out, in, 3, 3].
type convolution struct {
	name  string // of buffers, and of parameters less .weight and .bias
	first bool   // no input gradient is wanted
}

func (l convolution) forward(s *scope, x *Node) *Node {
	s.save(l.name+".input", arch.ForwardToWeight, x)
	w := s.parameter(l.name + ".weight")
	out, in := w.Shape().Dim(0), w.Shape().Dim(1)
	taps := graph.BroadcastToDims(graph.Reshape(identity(w, 9), 1, 9, 9), out, 9, 9)
	w = productTransposed(taps, graph.Reshape(w, out, in, 9)) // [out, 9, in]
	y := convolve(x, out, [3]int{2, 1, 0}, func(x *Node, from, to int) *Node {
		return productTransposed(x, graph.Reshape(cut(w, 1, from, to), out, -1))
	})
	return graph.Add(y, graph.Reshape(s.parameter(l.name+".bias"), 1, 1, 1, -1))
}

// input convolves dy with the weight turned by half a turn.
func (l convolution) input(s *scope, dy *Node) *Node {
	s.keep(l.name+".output_gradient", dy)
	if l.first {
		return nil
	}
	w := s.parameter(l.name + ".weight")
	in := w.Shape().Dim(1)
	w = productTransposed(identity(w, 9), graph.Reshape(w, -1, 9)) // [9, out × in]
	return convolve(dy, in, [3]int{0, 1, 2}, func(dy *Node, from, to int) *Node {
		return product(dy, graph.Reshape(cut(w, 0, from, to), -1, in))
	})
}

func (l convolution) weight(s *scope) {
	x, dy := s.saved(l.name+".input"), s.saved(l.name+".output_gradient")
	in, out, line := x.Shape().Dim(3), dy.Shape().Dim(3), x.Shape().Dim(2)+1
	three := neighbours(x, 2*line+2, []int{line + 2, line + 1, line})
	turned := graph.Transpose(pixels(dy), 0, 1)
	var rows []*Node
	for i := range 3 {
		rows = append(rows, product(between(turned, 1, i*line+1, (2-i)*line+1), three))
	}
	dw := graph.Reshape(graph.Concatenate(rows, 1), out, 3, 3, in)
	s.gradient(l.name+".weight", graph.TransposeAllAxes(dw, 0, 3, 1, 2))
	s.gradient(l.name+".bias", graph.Reshape(columnSums(graph.Reshape(dy, -1, out)), -1))
}

// identity returns that of n rows. Its product with a transposed matrix of n columns is
// a transposition in half the time of the backend's own.
func identity(like *Node, n int) *Node {
	square := shapes.Make(dtypes.Int32, n, n)
	g := like.Graph()
	return graph.ConvertDType(graph.Equal(graph.Iota(g, square, 0), graph.Iota(g, square, 1)), like.DType())
}

// cut returns a part of the nine taps along an axis.
func cut(w *Node, axis, from, to int) *Node {
	if to-from == 9 {
		return w
	}
	ranges := []graph.SliceAxisSpec{graph.AxisRange(), graph.AxisRange(), graph.AxisRange()}[:w.Rank()]
	ranges[axis] = graph.AxisRange(from, to)
	return graph.Slice(w, ranges...)
}

// convolve computes 3×3 with padding 1. Images are laid end to end, with zeros behind
// every line and every image, so that a pixel's neighbours are as far away as any
// other's; before says how far the taps' pixels are moved down, in lines and in pixels.
// Multiply gives the product of some taps' pixels and their weights: line by line of
// taps, of which the results are moved, or where the images are small beside the weight
// all nine at once, so that it need not be cut.
func convolve(x *Node, out int, before [3]int, multiply func(x *Node, from, to int) *Node) *Node {
	d := x.Shape().Dimensions
	n, height, line := d[0], d[1]+1, d[2]+1
	more := (2*line + 1 + height*line) / (height * line) // images, for what is moved down
	var y *Node
	if n*height*line < 3*out {
		var all []int
		for _, above := range before {
			all = append(all, above*line+before[0], above*line+before[1], above*line+before[2])
		}
		reach := 2*line + 2
		y = between(multiply(neighbours(x, reach, all), 0, 9), 0, 0, more*height*line-reach)
	} else {
		three := neighbours(x, 2, before[:])
		for i, above := range before {
			part := between(multiply(three, 3*i, 3*i+3), 0, above*line, (more*height-above)*line-2)
			if y != nil {
				part = graph.Add(y, part)
			}
			y = part
		}
	}
	y = graph.Reshape(y, n+more, height, line, out)
	return graph.Slice(y, graph.AxisRange(0, n), graph.AxisRangeToEnd(1), graph.AxisRangeToEnd(1))
}

// pixels has a row for each pixel, with one of zeros behind every line and a line of
// zeros behind every image.
func pixels(x *Node) *Node {
	one := compute.PadAxis{End: 1}
	zero := graph.ScalarZero(x.Graph(), x.DType())
	return graph.Reshape(graph.Pad(x, zero, compute.PadAxis{}, one, one, compute.PadAxis{}), -1, x.Shape().Dim(3))
}

// neighbours puts several pixels into each row: those that are so many rows before, at
// most reach.
func neighbours(x *Node, reach int, before []int) *Node {
	x = pixels(x)
	var columns []*Node
	for _, b := range before {
		columns = append(columns, between(x, 0, b, reach-b))
	}
	return graph.Concatenate(columns, 1)
}

// between puts x between zeros along an axis of a matrix.
func between(x *Node, axis, before, after int) *Node {
	parts := []*Node{x}
	dims := x.Shape().Clone().Dimensions
	if dims[axis] = before; before > 0 {
		parts = []*Node{zeros(x, dims...), x}
	}
	if after > 0 {
		dims = x.Shape().Clone().Dimensions
		dims[axis] = after
		parts = append(parts, zeros(x, dims...))
	}
	return graph.Concatenate(parts, axis)
}

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
