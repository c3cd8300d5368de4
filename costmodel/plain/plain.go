// Package plain makes networks without attention: linear layers, and VGG.
package plain

import (
	"fmt"

	"psim/costmodel/network"
)

// Linear makes equal linear layers of hidden×hidden, so that any split into equal stages is balanced. All
// layers end with a ReLU except the last, which ends with a cross-entropy loss over hidden classes.
func Linear(layers, hidden int) network.Network {
	n := network.Network{TokensPerSample: 1}
	for i := range layers {
		name := fmt.Sprintf("fc%d", i)
		l := dense(name, name, hidden, hidden)
		l.Ops[0].NoInputGradient = i == 0
		if i < layers-1 {
			l.Ops = append(l.Ops, relu(name+".relu", int64(hidden)))
			l.KeepsOutput, l.KeepsGradient, l.Repeatable = true, false, true
		} else {
			addLoss(&l, hidden)
		}
		n.Layers = append(n.Layers, l)
	}
	return n
}

// dense makes nn.Linear on one vector: weight [out, in] and bias.
func dense(name, tensor string, in, out int) network.Layer {
	return network.Layer{
		Name: name, Kind: network.KindChain,
		Params: []network.Tensor{
			{Name: tensor + ".weight", Shape: network.Dims{out, in}},
			{Name: tensor + ".bias", Shape: network.Dims{out}},
		},
		Input: network.Dims{in}, Output: network.Dims{out}, KeepsGradient: true,
		Ops: []network.Op{{
			Name: tensor, Class: network.Product, Weight: true, Bias: true,
			Count: 1, Rows: 1, Inner: int64(in), Cols: int64(out),
		}},
		Buffers: []network.Buffer{
			{Name: tensor + ".input", Shape: network.Dims{in}, Lifetime: network.ForwardToWeight},
			{Name: tensor + ".output_gradient", Shape: network.Dims{out}, Lifetime: network.InputToWeight},
		},
	}
}

// addLoss appends a cross-entropy over classes, for one label per sample.
func addLoss(l *network.Layer, classes int) {
	l.KeepsGradient = false
	l.Ops = append(l.Ops, crossEntropy(int64(classes)))
	l.Buffers = append(l.Buffers,
		network.Buffer{Name: "loss.log_probabilities", Shape: network.Dims{classes}, ElementBytes: 4},
		network.Buffer{Name: "loss.target", Shape: network.Dims{1}, ElementBytes: 4})
}

// relu makes a ReLU. F reads x and writes y; I reads y and the gradient.
func relu(name string, n int64) network.Op {
	op := network.NewElementwise(name, n, traffic(2, 2), traffic(4, 2))
	op.Function = network.ReLU
	return op
}

// crossEntropy makes the loss over n logits: a softmax and its gradient.
func crossEntropy(n int64) network.Op {
	op := network.NewElementwise("loss", n, traffic(2, 2), traffic(2, 2))
	op.Function = network.CrossEntropy
	return op
}

func elements(dims ...int) int64 { return network.Dims(dims).Elements() }

// traffic holds the bytes per element that a pass reads and writes.
func traffic(read, written int64) network.Traffic {
	return network.Traffic{Read: read, Written: written}
}
