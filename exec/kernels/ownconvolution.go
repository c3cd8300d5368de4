package kernels

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
)

// axesOfImages are the axes of images × rows × columns × channels, and of a weight [out, in, 3, 3].
var axesOfImages = compute.ConvolveAxesConfig{
	InputBatch: 0, InputSpatial: []int{1, 2}, InputChannels: 3,
	KernelOutputChannels: 0, KernelInputChannels: 1, KernelSpatial: []int{2, 3},
	OutputBatch: 0, OutputSpatial: []int{1, 2}, OutputChannels: 3,
}

// fewPixels reports whether images have fewer pixels than the layer has channels. Then reading the weight takes
// long, and the backend's own convolution reads it in another order than it lies.
func fewPixels(x *graph.Node, channels int) bool {
	d := x.Shape().Dimensions
	return d[0]*d[1]*d[2] < channels
}

// ownConvolution convolves by 3×3 with padding 1 as the backend does or, of few pixels, by a product.
func ownConvolution(x, w *graph.Node) *graph.Node {
	if fewPixels(x, w.Shape().Dim(0)) {
		return byWindows(x, w)
	}
	return convolveBy(x, w, axesOfImages)
}

func convolveBy(x, w *graph.Node, axes compute.ConvolveAxesConfig) *graph.Node {
	return graph.ConvGeneral(x, w, axes, []int{1, 1}, [][2]int{{1, 1}, {1, 1}}, nil, nil, 1, 1)
}

// ownInputGradient convolves dy with the weight rotated by 180 degrees. Of few pixels it multiplies by all taps,
// and adds the results where they belong.
func ownInputGradient(dy, w *graph.Node) *graph.Node {
	d, in := dy.Shape().Dimensions, w.Shape().Dim(1)
	if !fewPixels(dy, d[3]) {
		axes := axesOfImages
		axes.KernelInputChannels, axes.KernelOutputChannels = 0, 1
		return convolveBy(dy, graph.Reverse(w, 2, 3), axes)
	}
	taps := graph.Reshape(product(graph.Reshape(dy, -1, d[3]), graph.Reshape(w, d[3], -1)), d[0], d[1], d[2], in, 9)
	zero, all := graph.ScalarZero(dy.Graph(), dy.DType()), graph.AxisRange()
	var sum *graph.Node
	for i := range 9 {
		tap := graph.Reshape(graph.Slice(taps, all, all, all, all, graph.AxisElem(i)), d[0], d[1], d[2], in)
		tap = graph.Pad(tap, zero, compute.PadAxis{}, compute.PadAxis{Start: i / 3, End: 2 - i/3},
			compute.PadAxis{Start: i % 3, End: 2 - i%3}, compute.PadAxis{})
		if sum == nil {
			sum = tap
		} else {
			sum = graph.Add(sum, tap)
		}
	}
	return graph.Slice(sum, all, graph.AxisRange(1, d[1]+1), graph.AxisRange(1, d[2]+1))
}

// crossedGradients makes the weight's gradient of all nine taps by one product. Its rows are pixels, with zeros
// behind every line and every image: dy, three times side by side, moved by lines, and x, moved by pixels.
func crossedGradients(x, dy *graph.Node) *graph.Node {
	line, in, out := x.Shape().Dim(2)+1, x.Shape().Dim(3), dy.Shape().Dim(3)
	x, dy = pixels(x), pixels(dy)
	rows := x.Shape().Dim(0)
	move := func(x *graph.Node, before, after int) *graph.Node {
		zero := graph.ScalarZero(x.Graph(), x.DType())
		return graph.Pad(x, zero, compute.PadAxis{Start: before, End: after}, compute.PadAxis{})
	}
	across := graph.Concatenate([]*graph.Node{move(x, 2, 0), move(x, 1, 1), move(x, 0, 2)}, 1)
	down := graph.Concatenate([]*graph.Node{
		move(graph.Slice(dy, graph.AxisRange(line-1, rows)), 0, line+1),
		move(dy, 1, 1),
		move(graph.Slice(dy, graph.AxisRange(0, rows-line+1)), line+1, 0),
	}, 1)
	dw := product(graph.Transpose(down, 0, 1), across)
	return graph.TransposeAllAxes(graph.Reshape(dw, 3, out, 3, in), 1, 3, 0, 2)
}
