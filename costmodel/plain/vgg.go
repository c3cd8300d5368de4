package plain

import (
	"fmt"
	"math"
	"strings"

	"psim/costmodel/network"
)

// Names of presets. The names of networks without average pooling end with pipelined.
const (
	presetVGG16   = "vgg16"
	presetVGGMini = "vgg-mini"
	pipelined     = "-pipeline"
)

// VGG makes the network of a preset's name.
func VGG(name string) network.Network {
	base, withoutPooling := strings.CutSuffix(name, pipelined)
	if base == presetVGGMini {
		return vggMini(!withoutPooling)
	}
	return vgg16(!withoutPooling)
}

// vgg16 makes torchvision's VGG16 (configuration D, no batch norm) for CIFAR-10 images of 3×32×32,
// cut before each pooling into 13 layers:
//
//	conv1 conv2 conv3 conv4 conv5 flatten fc1 relu1 dropout1 fc2 relu2 dropout2 fc3
//
// conv2 … conv5 begin with the pooling of the block before; conv5 ends with its own. With pooled,
// torchvision's average pooling to 7×7 is a fourteenth layer after conv5, which makes fc1 25088
// wide instead of 512. Weights have torchvision's initial deviations: √(2/(9·out)) for convolutions,
// 0.01 for other weights.
func vgg16(pooled bool) network.Network {
	return vgg([][]int{{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}, 4096, pooled)
}

// vggMini makes a VGG of the same 13 or 14 layers, with one convolution of a few
// channels in most blocks: small enough to train in a test.
func vggMini(pooled bool) network.Network {
	return vgg([][]int{{4, 4}, {6}, {8}, {8}, {10}}, 16, pooled)
}

// vgg makes blocks of convolutions with the given channels, and hidden linear layers of the given
// width.
func vgg(blocks [][]int, hidden int, pooled bool) network.Network {
	var layers []network.Layer
	index, size, in := 0, 32, 3
	for block, channels := range blocks {
		layers = append(layers, vggBlock(block+1, index, picture{in, size}, channels))
		index += 2*len(channels) + 1
		in = channels[0]
		if block > 0 {
			size /= 2
		}
	}
	if pooled {
		layers = append(layers, averagePool(in))
	}
	features := layers[len(layers)-1].Output
	return network.Network{TokensPerSample: 1, Layers: append(layers, vggClassifier(features, hidden)...)}
}

// A picture is the size of a square tensor: its channels and the pixels along a side.
type picture struct{ channels, side int }

// vggBlock makes block number b; index is its first convolution's place in torchvision's features.
func vggBlock(b, index int, input picture, channels []int) network.Layer {
	in, size := input.channels, input.side
	l := network.Layer{
		Name: fmt.Sprintf("conv%d", b), Kind: network.KindChain,
		Input: network.Dims{in, size, size}, Repeatable: true,
	}
	if b > 1 {
		size /= 2
		addMaxPool(&l, fmt.Sprintf("pool%d", b-1), in, size)
	}
	for i, out := range channels {
		name := fmt.Sprintf("features.%d", index+2*i)
		addConvolution(&l, name, picture{in, size}, out)
		l.Ops = append(l.Ops, relu(name+".relu", elements(out, size, size)))
		in = out
	}
	l.Ops[0].NoInputGradient = b == 1
	l.Output = network.Dims{in, size, size}
	last := fmt.Sprintf("features.%d.relu.output", index+2*len(channels)-2)
	l.Buffers = append(l.Buffers, network.Buffer{Name: last, Shape: l.Output})
	if b == 5 {
		addMaxPool(&l, "pool5", in, size/2)
		l.Output = network.Dims{in, size / 2, size / 2}
	}
	return l
}

// addConvolution appends a 3×3 convolution with padding 1: a product with one row per pixel and one
// column per output channel.
func addConvolution(l *network.Layer, name string, input picture, out int) {
	in, size := input.channels, input.side
	deviation := math.Sqrt(2 / (9 * float64(out)))
	l.Params = append(l.Params,
		network.Tensor{Name: name + ".weight", Shape: network.Dims{out, in, 3, 3}, Deviation: deviation},
		network.Tensor{Name: name + ".bias", Shape: network.Dims{out}})
	l.Ops = append(l.Ops, network.Op{
		Name: name, Class: network.Product, Weight: true, Bias: true,
		Count: 1, Rows: elements(size, size), Inner: elements(in, 3, 3), Cols: int64(out),
		Left: elements(in, size, size),
	})
	l.Buffers = append(l.Buffers,
		network.Buffer{Name: name + ".input", Shape: network.Dims{in, size, size}, Lifetime: network.ForwardToWeight},
		network.Buffer{
			Name: name + ".output_gradient", Shape: network.Dims{out, size, size}, Lifetime: network.InputToWeight,
		})
}

// addMaxPool appends a 2×2 pooling to channels×size×size, which keeps 8-byte indices. For each
// element F reads four, and I writes four.
func addMaxPool(l *network.Layer, name string, channels, size int) {
	op := network.NewElementwise(name, elements(channels, size, size), traffic(8, 4), traffic(4, 8))
	op.Function = network.MaxPool
	l.Ops = append(l.Ops, op)
	l.Buffers = append(l.Buffers,
		network.Buffer{Name: name + ".indices", Shape: network.Dims{channels, size, size}, ElementBytes: 8})
}

// averagePool spreads the 1×1 features of a CIFAR image over 7×7.
func averagePool(channels int) network.Layer {
	in, n := int64(channels), elements(channels, 7, 7)
	op := network.Op{
		Name: "avgpool", Class: network.Elementwise, Function: network.Spread, Elements: n,
		Moved: [3]int64{in + n, in + n, 0}, Writes: [3]int64{n, in, 0},
	}
	return network.Layer{
		Name: "avgpool", Kind: network.KindChain,
		Input: network.Dims{channels, 1, 1}, Output: network.Dims{channels, 7, 7}, Ops: []network.Op{op},
	}
}

// vggClassifier makes the layers from flatten to fc3, which includes the loss. A dropout layer does
// nothing.
func vggClassifier(features network.Dims, hidden int) []network.Layer {
	in := int(features.Elements())
	fc3 := vggDense("fc3", "classifier.6", hidden, 10)
	addLoss(&fc3, 10)
	return []network.Layer{
		{Name: "flatten", Kind: network.KindChain, Input: features, Output: network.Dims{in}},
		vggDense("fc1", "classifier.0", in, hidden), reluLayer("relu1", hidden), identity("dropout1", hidden),
		vggDense("fc2", "classifier.3", hidden, hidden), reluLayer("relu2", hidden), identity("dropout2", hidden),
		fc3,
	}
}

func vggDense(name, tensor string, in, out int) network.Layer {
	l := dense(name, tensor, in, out)
	l.Params[0].Deviation = 0.01
	return l
}

func reluLayer(name string, width int) network.Layer {
	l := identity(name, width)
	l.Ops, l.KeepsOutput = []network.Op{relu(name, int64(width))}, true
	return l
}

func identity(name string, width int) network.Layer {
	return network.Layer{Name: name, Kind: network.KindChain, Input: network.Dims{width}, Output: network.Dims{width}}
}
