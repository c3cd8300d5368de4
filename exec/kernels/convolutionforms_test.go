package kernels

import (
	"psim/costmodel/network"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
)

type convolutionForm struct {
	convolution
	f, i func(x, w *graph.Node) *graph.Node  // without bias
	w    func(x, dy *graph.Node) *graph.Node // the weight's gradient
}

func convolutionBy(name string, f convolutionForm) form {
	return newForm(name, func(l convolution) module {
		f.convolution = l
		return f
	})
}

func (l convolutionForm) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(l.name+".input", network.ForwardToWeight, x)
	return addBias(l.f(x, s.parameter(l.name+".weight")), s.parameter(l.name+".bias"))
}

func (l convolutionForm) input(s *scope, dy *graph.Node) *graph.Node {
	s.keep(l.name+".output_gradient", dy)
	if l.first {
		return nil
	}
	return l.i(dy, s.parameter(l.name+".weight"))
}

func (l convolutionForm) weight(s *scope) {
	x, dy := s.saved(l.name+".input"), s.saved(l.name+".output_gradient")
	s.gradient(l.name+".weight", l.w(x, dy))
	s.gradient(l.name+".bias", graph.Reshape(columnSums(graph.Reshape(dy, -1, dy.Shape().Dim(3))), -1))
}

func ownForward(x, w *graph.Node) *graph.Node { return convolveBy(x, w, axesOfImages) }

func ownInput(dy, w *graph.Node) *graph.Node {
	axes := axesOfImages
	axes.KernelInputChannels, axes.KernelOutputChannels = 0, 1
	return convolveBy(dy, graph.Reverse(w, 2, 3), axes)
}

// ownWeight takes dy for a window as large as the images.
func ownWeight(x, dy *graph.Node) *graph.Node {
	return convolveBy(x, dy, compute.ConvolveAxesConfig{
		InputBatch: 3, InputSpatial: []int{1, 2}, InputChannels: 0,
		KernelInputChannels: 0, KernelOutputChannels: 3, KernelSpatial: []int{1, 2},
		OutputBatch: 1, OutputChannels: 0, OutputSpatial: []int{2, 3},
	})
}

// copies has the nine neighbours of a pixel in its row, tap by tap.
func copies(x *graph.Node) *graph.Node {
	d := x.Shape().Dimensions
	one := compute.PadAxis{Start: 1, End: 1}
	x = graph.Pad(x, graph.ScalarZero(x.Graph(), x.DType()), compute.PadAxis{}, one, one, compute.PadAxis{})
	var taps []*graph.Node
	for i := range 9 {
		taps = append(taps, graph.Slice(x, graph.AxisRange(), graph.AxisRange(i/3, i/3+d[1]), graph.AxisRange(i%3, i%3+d[2])))
	}
	return graph.Reshape(graph.Concatenate(taps, 3), d[0]*d[1]*d[2], -1)
}

// likeImages gives rows of pixels the images' axes.
func likeImages(x, rows *graph.Node) *graph.Node {
	d := x.Shape().Dimensions
	return graph.Reshape(rows, d[0], d[1], d[2], -1)
}

func copiesForward(x, w *graph.Node) *graph.Node {
	out := w.Shape().Dim(0)
	return likeImages(x, productTransposed(copies(x), graph.Reshape(graph.TransposeAllAxes(w, 0, 2, 3, 1), out, -1)))
}

func copiesInput(dy, w *graph.Node) *graph.Node {
	in := w.Shape().Dim(1)
	w = graph.TransposeAllAxes(graph.Reverse(w, 2, 3), 1, 2, 3, 0)
	return likeImages(dy, productTransposed(copies(dy), graph.Reshape(w, in, -1)))
}

func copiesWeight(x, dy *graph.Node) *graph.Node {
	in, out := x.Shape().Dim(3), dy.Shape().Dim(3)
	dw := product(graph.Transpose(graph.Reshape(dy, -1, out), 0, 1), copies(x))
	return graph.TransposeAllAxes(graph.Reshape(dw, out, 3, 3, in), 0, 3, 1, 2)
}

func tilesForward(t tiling) func(x, w *graph.Node) *graph.Node {
	return func(x, w *graph.Node) *graph.Node { return t.images(x, graph.TransposeAllAxes(w, 2, 3, 1, 0)) }
}

func tilesInput(t tiling) func(dy, w *graph.Node) *graph.Node {
	return func(dy, w *graph.Node) *graph.Node {
		return t.images(dy, graph.TransposeAllAxes(graph.Reverse(w, 2, 3), 2, 3, 0, 1))
	}
}

// images convolves by tiles whose pixels are copied, and made into products by one matrix. The weight is
// [3, 3, in, out].
func (t tiling) images(x, w *graph.Node) *graph.Node {
	d, in, out := x.Shape().Dimensions, w.Shape().Dim(2), w.Shape().Dim(3)
	m, p := len(t.results), len(t.pixels)
	high, wide := (d[1]+m-1)/m, (d[2]+m-1)/m
	x = graph.Pad(x, graph.ScalarZero(x.Graph(), x.DType()), compute.PadAxis{},
		compute.PadAxis{Start: 1, End: high*m - d[1] + 1}, compute.PadAxis{Start: 1, End: wide*m - d[2] + 1},
		compute.PadAxis{})
	var parts []*graph.Node
	for i := range p * p {
		part := graph.Slice(x, graph.AxisRange(), graph.AxisRange(i/p, i/p+(high-1)*m+1).Stride(m),
			graph.AxisRange(i%p, i%p+(wide-1)*m+1).Stride(m), graph.AxisRange())
		parts = append(parts, graph.Reshape(part, 1, -1))
	}
	pixels := product(matrix(x, both(t.pixels)), graph.Concatenate(parts, 0))
	weights := graph.Reshape(product(matrix(w, both(t.taps)), graph.Reshape(w, 9, -1)), p*p, in, out)
	sums := product(graph.Reshape(pixels, p*p, -1, in), weights)
	y := product(matrix(x, both(t.results)), graph.Reshape(sums, p*p, -1))
	y = graph.TransposeAllAxes(graph.Reshape(y, m, m, d[0], high, wide, out), 2, 3, 0, 4, 1, 5)
	y = graph.Reshape(y, d[0], high*m, wide*m, out)
	return graph.Slice(y, graph.AxisRange(), graph.AxisRange(0, d[1]), graph.AxisRange(0, d[2]))
}

// both returns the matrix that works along the rows and along the columns of a square.
func both(rows [][]float64) (all [][]float64) {
	for _, a := range rows {
		for _, b := range rows {
			var list []float64
			for _, x := range a {
				for _, y := range b {
					list = append(list, x*y)
				}
			}
			all = append(all, list)
		}
	}
	return all
}
