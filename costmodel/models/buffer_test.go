package models

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"psim/costmodel/network"
	"psim/costmodel/training"
)

// fp16Bytes of the buffers of a block that F keeps, apart into those that
// tensor parallelism divides and the others.
func fp16Bytes(buffers []network.Buffer) (sharded, whole int64) {
	for _, b := range buffers {
		if b.Sharded {
			sharded += b.Bytes(2)
		} else {
			whole += b.Bytes(2)
		}
	}
	return sharded, whole
}

// Korthikanti et al. 2022, table 2, bytes per layer in fp16 with dropout.
// Without it five terms are missing, of which the softmax's are a mask of one
// byte and an output.
func TestKorthikantiMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawGPT(t)
		s, h, a := int64(m.SequenceLength), int64(m.Hidden), int64(m.Heads)
		outputMasks, softmaxDropout := 2*s*h, (1+2)*a*s*s
		if rapid.Bool().Draw(t, "dropout") {
			m.Dropout = 0.1
			outputMasks, softmaxDropout = 0, 0
		}
		block := build(t, m).Layers[1]

		sharded, whole := fp16Bytes(training.Options{}.Kept(block))
		assert.Equal(t, 34*s*h+5*a*s*s, sharded+whole+outputMasks+softmaxDropout, "no parallelism")
		assert.Equal(t, 10*s*h, whole+outputMasks, "not divided by t")
		assert.Equal(t, 24*s*h+5*a*s*s, sharded+softmaxDropout, "divided by t")

		sharded, whole = fp16Bytes(training.Options{Recompute: "selective"}.Kept(block))
		assert.Equal(t, 34*s*h, sharded+whole+outputMasks, "selective")

		sharded, whole = fp16Bytes(training.Options{Recompute: "full"}.Kept(block))
		assert.Equal(t, 2*s*h, sharded+whole, "full")
	})
}

// W of a block needs 32sbh bytes in fp16 (Qi et al. 2023, zero bubble, table 1):
// inputs and output gradients of the four linear layers.
func TestZeroBubbleMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawGPT(t)
		block := build(t, m).Layers[1]
		sh := int64(m.SequenceLength) * int64(m.Hidden)
		assert.Equal(t, 14*sh, network.BufferBytes(block.Buffers, 2, 1)[network.ForwardToWeight])
		assert.Equal(t, 18*sh, network.BufferBytes(block.Buffers, 2, 1)[network.InputToWeight])
	})
}

// Every product with a weight finds its input and its output gradient: the
// elements kept for W are those that the products read, an input shared by
// several products once.
func TestWeightGradientFindsItsOperands(t *testing.T) {
	shared := map[string]int64{
		"self_attn.k_proj": 1, "self_attn.v_proj": 1, "self_attn.g_proj": 1, "mlp.up_proj": 1, "block_sparse_moe.experts.w3": 1,
		"self_attn.kv_a_proj_with_mqa": 1, sharedExperts + "gate_proj": 1, sharedExperts + "up_proj": 1,
		linear + "in_proj_ba": 1, sharedGate: 1, toLatent: 1,
		indexer + "wq_b": 1, indexer + "wk": 1, indexer + "weights_proj": 1, // of the small vectors of queries, and of kv_a
	}
	for _, p := range Presets() {
		for _, l := range preset(t, p.Name).Layers {
			var inputs, gradients int64
			shared["mlp.up_proj"] = 0 // of the gate
			for _, op := range l.Ops {
				if op.Name == "mlp.gate_proj" {
					shared["mlp.up_proj"] = 1
				}
				if op.Class == network.Product && op.Weight {
					inputs += cmp.Or(op.Left, op.Count*op.Rows*op.Inner) * (1 - shared[op.Name])
					gradients += op.Count * op.Rows * op.Cols
				}
			}
			if inputs > 0 {
				assert.Equal(t, inputs, network.BufferBytes(l.Buffers, 1, 1)[network.ForwardToWeight], "%s %s", p.Name, l.Name)
				assert.Equal(t, gradients, network.BufferBytes(l.Buffers, 1, 1)[network.InputToWeight], "%s %s", p.Name, l.Name)
			}
		}
	}
}

func TestFixedElementBytes(t *testing.T) {
	n := build(t, Model{Preset: "gpt2", SequenceLength: 128})
	embed, head := n.Layers[0], n.Layers[14]
	assert.EqualValues(t, 4*128, network.BufferBytes(embed.Buffers, 2, 1)[network.ForwardToWeight], "token ids")
	for _, bytes := range []int64{2, 4} {
		assert.EqualValues(t, 4*128*50257+4*128, network.BufferBytes(head.Buffers, bytes, 1)[network.ForwardToInput], "loss in fp32")
	}
	pool := preset(t, "vgg16-pipeline").Layers[1].Buffers[0]
	assert.EqualValues(t, 8*64*16*16, pool.Bytes(4))
}

func TestLlamaMemory(t *testing.T) {
	n := build(t, Model{Preset: "llama3-8b", SequenceLength: 512})
	const s, a, h, kv, f = 512, 32, 4096, 1024, 14336
	block := n.Layers[1]
	assert.EqualValues(t, s*(2*h+h+2*kv+3*f)+a*s*s, network.BufferBytes(block.Buffers, 1, 1)[network.ForwardToInput])
	assert.EqualValues(t, s*(3*h+f), network.BufferBytes(block.Buffers, 1, 1)[network.ForwardToWeight])
	assert.EqualValues(t, s*(3*h+2*kv+2*f), network.BufferBytes(block.Buffers, 1, 1)[network.InputToWeight])
}

// A ReLU's output is kept once: by the next layer where that is linear, else by
// its own. Pooling keeps 8-byte indices.
func TestReLUMemory(t *testing.T) {
	layers := preset(t, "vgg16-pipeline").Layers
	assert.EqualValues(t, 2*64*32*32, network.BufferBytes(layers[0].Buffers, 2, 1)[network.ForwardToInput])
	assert.EqualValues(t, 2*(3+64)*32*32, network.BufferBytes(layers[0].Buffers, 2, 1)[network.ForwardToWeight])
	assert.EqualValues(t, 2*512*2*2+8*512*(2*2+1), network.BufferBytes(layers[4].Buffers, 2, 1)[network.ForwardToInput])
	var keeps []string
	for _, l := range append(layers, preset(t, "mlp").Layers[5:]...) {
		if l.KeepsOutput {
			keeps = append(keeps, l.Name)
		}
	}
	assert.Equal(t, []string{"relu1", "relu2", "fc5", "fc6"}, keeps)
}
