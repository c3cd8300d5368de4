package training_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/network"
	"psim/costmodel/training"
)

// States by shape, in bytes: 8 bits have two moments and two scales for every 256, but not for small tensors;
// Adafactor has a number for every row and every column; Muon has one moment for matrices of blocks.
func TestTensorState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 5000).Draw(t, "rows"), rapid.IntRange(1, 5000).Draw(t, "columns")
		n := int64(rows) * int64(cols)
		matrix, gain := network.Tensor{Shape: network.Dims{rows, cols}}, network.Tensor{Shape: network.Dims{cols}}
		block := network.Layer{Repeatable: true, Ops: []network.Op{{Modules: network.FusedCore}}}
		state := func(optimizer string, l network.Layer, p network.Tensor) int64 {
			return training.Options{Optimizer: optimizer}.TensorState(l, p)
		}
		for _, optimizer := range []string{training.OptimizerAdamW8Bit, training.OptimizerPaged8Bit} {
			if n < 4096 {
				require.Equal(t, 8*n, state(optimizer, block, matrix))
			} else {
				require.InDelta(t, float64(n)*(2+8./256), float64(state(optimizer, block, matrix)), 8)
			}
		}
		require.EqualValues(t, 4*(rows+cols), state(training.OptimizerAdafactor, block, matrix))
		require.EqualValues(t, 4*cols, state(training.OptimizerAdafactor, block, gain))
		require.Equal(t, 4*n, state(training.OptimizerMuon, block, matrix))
		require.EqualValues(t, 8*cols, state(training.OptimizerMuon, block, gain))
		require.Equal(t, 8*n, state(training.OptimizerMuon, network.Layer{}, matrix), "embedding and head have AdamW")
		for _, regular := range []string{"sgd", "adamw", training.OptimizerLion} {
			require.Zero(t, state(regular, block, matrix))
			require.False(t, training.Options{Optimizer: regular}.ByTensor())
		}

		m, w := float64(min(rows, cols)), float64(max(rows, cols))
		flops, products := training.Options{Optimizer: training.OptimizerMuon}.UpdateFLOPs(block, matrix)
		require.Equal(t, 5*(4*m*m*w+2*m*m*m), flops)
		require.Equal(t, 15, products)
	})
}

// Without fp32 weights a parameter takes 2 + 2 bytes and its moments.
func TestMasterWeights(t *testing.T) {
	o := training.Options{Precision: "bf16", MasterWeights: training.MastersNone, Moments: "bf16"}
	require.NoError(t, o.Validate())
	require.Equal(t, training.State{Parameter: 2, Gradient: 2, Optimizer: 4}, o.State())
	for _, bad := range []training.Options{
		{MasterWeights: training.MastersNone},
		{Precision: "fp16", MasterWeights: training.MastersNone},
		{Precision: "fp8", MasterWeights: training.MastersNone},
		{Precision: "bf16", Gradients: "fp32", MasterWeights: training.MastersNone},
		{Precision: "bf16", Moments: "bf16", Optimizer: training.OptimizerMuon},
		{Precision: "bf16", UpdateIn: training.UpdateInBackward, Clip: true},
		{Moments: "bf16", Optimizer: "sgd"},
	} {
		require.Error(t, bad.Validate(), "%+v", bad)
	}
}
