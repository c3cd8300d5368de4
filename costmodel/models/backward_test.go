package models

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"psim/costmodel/network"
	"psim/costmodel/training"
)

// names lists operations.
func names(ops []network.Op) (list []string) {
	for _, o := range ops {
		list = append(list, o.Name)
	}
	return list
}

// A call for the gradients of a layer's parameters goes back to the first that has
// some: in a block of convolutions to the first of them, whose weight needs the
// gradient of its output alone; in a transformer's block to the first norm.
func TestRewalked(t *testing.T) {
	vgg := preset(t, "vgg16-pipeline").Layers
	assert.Equal(t, []string{"features.0.relu", "features.2", "features.2.relu"}, names(vgg[0].Rewalked()))
	assert.Equal(t, []string{"features.5.relu", "features.7", "features.7.relu"}, names(vgg[1].Rewalked()), "not the pooling before")
	assert.Equal(t, []string{"features.24.relu", "features.26", "features.26.relu", "features.28", "features.28.relu", "pool5"}, names(vgg[4].Rewalked()))
	for _, l := range vgg[5:] {
		assert.Empty(t, l.Rewalked(), "%s: one product, a ReLU, or a loss that is no layer's", l.Name)
	}
	gpt := preset(t, "gpt2").Layers
	assert.Equal(t, names(gpt[1].Ops), names(gpt[1].Rewalked()))
	assert.NotContains(t, names(gpt[len(gpt)-1].Rewalked()), "loss")
}

// What is looked through for NaN is what a pass makes: 64 channels of 32 × 32 pixels
// in the first block of VGG16, and four times as many pixels before a pooling.
func TestGradients(t *testing.T) {
	count := func(o network.Op, p network.Pass) [2]int64 {
		tensors, elements := o.Gradients(p, 2)
		return [2]int64{int64(tensors), elements}
	}
	vgg := preset(t, "vgg16-pipeline").Layers
	first, second, pool := vgg[0].Ops[0], vgg[0].Ops[2], vgg[1].Ops[0]
	assert.Equal(t, [2]int64{1, 3 * 64 * 9}, count(first, network.WeightGradient))
	assert.Zero(t, count(first, network.InputGradient), "of the image")
	assert.Equal(t, [2]int64{1, 2 * 64 * 32 * 32}, count(second, network.InputGradient))
	assert.Equal(t, [2]int64{1, 2 * 64 * 32 * 32}, count(pool, network.InputGradient))
	assert.Zero(t, count(pool, network.WeightGradient))
	assert.Zero(t, count(second, network.Forward))
	scores := network.Op{Class: network.Product, Count: 3, Rows: 5, Inner: 7, Cols: 11} // of attention: no weight
	assert.Equal(t, [2]int64{2, 2 * 3 * (5*7 + 7*11)}, count(scores, network.InputGradient))
	table := network.Op{Class: network.Lookup, Rows: 13, Cols: 4, Moved: [3]int64{8, 0, 8}}
	assert.Equal(t, [2]int64{1, 13 * 4}, count(table, network.WeightGradient))
	assert.Zero(t, count(table, network.InputGradient))
}

// In two passes the network's input has a gradient; the network asked is left as it was.
func TestAsked(t *testing.T) {
	n := preset(t, "vgg16-pipeline")
	assert.Equal(t, n, training.Options{Backward: training.BackwardPerLayer}.Trained(n))
	asked := training.Options{Backward: training.BackwardTwoPass}.Trained(n)
	assert.Equal(t, n.FLOPs(network.Forward), asked.FLOPs(network.InputGradient))
	assert.Less(t, n.FLOPs(network.InputGradient), n.FLOPs(network.Forward))
	assert.EqualError(t, training.Options{Backward: training.BackwardTwoPass, Recompute: "full"}.Validate(),
		`recompute = "full": must be none with backward = "two-pass", as PyTorch's checkpoints do not go with autograd.grad`)
	assert.ErrorContains(t, training.Options{Backward: "layers"}.Validate(), `must be one of whole, per-layer, two-pass`)
}
