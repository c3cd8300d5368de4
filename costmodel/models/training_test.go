package models

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

func TestTrainingValidate(t *testing.T) {
	for want, train := range map[string]training.Options{
		`precision = "x": must be one of fp32, fp16, bf16, fp8, mxfp8, nvfp4`:                                                                   {Precision: "x"},
		`optimizer = "rprop": must be one of sgd, sgd-momentum, adam, adamw, adamw-8bit, paged-adamw-8bit, adafactor, lion, muon`:               {Optimizer: "rprop"},
		`recompute = "everything": must be none, selective, full, or a list of core_attn, mlp, moe, moe_act, shared_experts, norm, mla_up_proj`: {Recompute: "everything"},
		`precision = "FP16": must be one of fp32, fp16, bf16, fp8, mxfp8, nvfp4; did you mean fp16?`:                                            {Precision: "FP16", Optimizer: "x"},
		`optimizer = "momentum": must be one of sgd, sgd-momentum, adam, adamw, adamw-8bit, paged-adamw-8bit, adafactor, lion, muon`:            {Optimizer: "momentum"},
	} {
		assert.EqualError(t, train.Validate(), want)
	}
}

func TestRepeated(t *testing.T) {
	n := preset(t, "llama2-7b")
	block, head := n.Layers[1], n.Layers[len(n.Layers)-1]
	assert.Empty(t, training.Options{}.Repeated(block))
	var names []string
	for _, op := range (training.Options{Recompute: "selective"}).Repeated(block) {
		names = append(names, op.Name)
	}
	assert.Equal(t, []string{"self_attn.scores", "self_attn.softmax", "self_attn.context"}, names)
	full := training.Options{Recompute: "full"}
	assert.Equal(t, block.Ops, full.Repeated(block))
	assert.Empty(t, full.Repeated(head), "the head is not repeatable")
	assert.Len(t, full.Kept(head), 3)
}

// By operations, a block of llama runs the products of keys, output and up again, with
// all that is no product; it keeps less than without recomputation, and more than by full.
func TestRepeatedByOperations(t *testing.T) {
	m := Model{Preset: "llama2-7b", Attention: AttentionFlash}
	n, err := m.Network()
	require.NoError(t, err)
	block := n.Layers[1]
	by := training.Options{Recompute: "selective", Selective: training.SelectiveOperations, Precision: "bf16"}
	var names []string
	for _, op := range by.Repeated(block) {
		names = append(names, op.Name)
	}
	assert.Equal(t, []string{
		"input_layernorm", "self_attn.k_proj", "self_attn.rotary", "self_attn.o_proj", "self_attn.residual", "post_attention_layernorm",
		"mlp.up_proj", "mlp.silu", "mlp.gate", "mlp.residual",
	}, names)
	s, h, f := int64(n.TokensPerSample), int64(4096), int64(11008)
	// Input, queries, values, context, the MLP's output; its gate; 4 bytes for rows of 32 heads.
	kept := network.BufferBytes(by.Kept(block), 2, 1)
	assert.Equal(t, 2*s*(5*h+f)+4*s*32, kept[network.ForwardToInput]+kept[network.ForwardToWeight])
	whole := network.BufferBytes(training.Options{}.Kept(block), 2, 1)
	for l := range kept {
		assert.LessOrEqual(t, kept[l], whole[l], network.Lifetime(l).String())
	}
	head := n.Layers[len(n.Layers)-1]
	assert.Empty(t, by.Repeated(head))
	assert.Equal(t, training.Options{}.Kept(head), by.Kept(head), "the head is no block")
	assert.Equal(t, block.Ops, training.Options{Recompute: "full", Selective: training.SelectiveOperations}.Repeated(block))
	assert.Empty(t, training.Options{Selective: training.SelectiveOperations}.Repeated(block), "nothing is repeated unless recompute says so")
}

// Under tensor parallelism with sequences divided, what a reduce-scatter leaves is kept,
// and sums of all are made again without.
func TestRepeatedByOperationsExchanges(t *testing.T) {
	by := training.Options{Recompute: "selective", Selective: training.SelectiveOperations}
	for _, sequence := range []bool{false, true} {
		n, err := Model{Preset: "llama2-7b", Attention: AttentionFlash}.On(group.Group{Devices: 4, Sequence: sequence})
		require.NoError(t, err)
		var reduced, scattered int
		for _, op := range by.Repeated(n.Layers[1]) {
			switch op.Exchanges[network.Forward].Collective {
			case group.AllReduce:
				reduced++
			case group.ReduceScatter:
				scattered++
			}
		}
		assert.Zero(t, scattered)
		assert.Equal(t, !sequence, reduced == 2)
	}
}
