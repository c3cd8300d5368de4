package arch

import (
	"fmt"
)

// mlp makes as many linear layers as the model has of hidden×hidden, equal so that any split into
// equal stages is balanced. All but the last end with a ReLU, the last with a
// cross-entropy loss over hidden classes.
func mlp(m Model) Network {
	n := Network{TokensPerSample: 1}
	for i := range m.Layers {
		name := fmt.Sprintf("fc%d", i)
		l := dense(name, name, m.Hidden, m.Hidden)
		l.Ops[0].NoInputGradient = i == 0
		if i < m.Layers-1 {
			l.Ops = append(l.Ops, relu(name+".relu", int64(m.Hidden)))
			l.KeepsOutput, l.KeepsGradient, l.Repeatable = true, false, true
		} else {
			l.addLoss(m.Hidden)
		}
		n.Layers = append(n.Layers, l)
	}
	return n
}

// dense makes nn.Linear on one vector: weight [out, in] and bias.
func dense(name, tensor string, in, out int) Layer {
	return Layer{
		Name: name, Kind: KindChain,
		Params: []Tensor{
			{Name: tensor + ".weight", Shape: Shape{out, in}},
			{Name: tensor + ".bias", Shape: Shape{out}},
		},
		Input: Shape{in}, Output: Shape{out}, KeepsGradient: true,
		Ops: []Op{{
			Name: tensor, Class: Product, Weight: true, Bias: true,
			Count: 1, Rows: 1, Inner: int64(in), Cols: int64(out),
		}},
		Buffers: []Buffer{
			{Name: tensor + ".input", Shape: Shape{in}, Lifetime: ForwardToWeight},
			{Name: tensor + ".output_gradient", Shape: Shape{out}, Lifetime: InputToWeight},
		},
	}
}

// addLoss appends a cross-entropy over classes, for one label per sample.
func (l *Layer) addLoss(classes int) {
	l.KeepsGradient = false
	l.Ops = append(l.Ops, crossEntropy(int64(classes)))
	l.Buffers = append(l.Buffers,
		Buffer{Name: "loss.log_probabilities", Shape: Shape{classes}, ElementBytes: 4},
		Buffer{Name: "loss.target", Shape: Shape{1}, ElementBytes: 4})
}

// relu reads x and writes y; its I reads y and the gradient.
func relu(name string, n int64) Op {
	op := elementwise(name, n, traffic{2, 2}, traffic{4, 2})
	op.Function = ReLU
	return op
}

// crossEntropy over n logits: a softmax and its gradient.
func crossEntropy(n int64) Op {
	op := elementwise("loss", n, traffic{2, 2}, traffic{2, 2})
	op.Function = CrossEntropy
	return op
}
