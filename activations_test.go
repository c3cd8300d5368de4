package psim_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
)

// A gpt is a network for the formulas of activations, with dropout and 16-bit numbers.
type gpt struct{ hidden, heads, vocab, sequence, layers, micro int64 }

// layer counts what fused attention leaves of a layer of Korthikanti et al. 2022 (table 2,
// and Megatron-LM's theoretical_memory_usage.py): 34sbh without its square, of which tensor
// parallelism alone divides 24sbh; and of FlashAttention a number of every row and head.
func (g gpt) layer(tensor int64, sequence bool) int64 {
	sbh := g.sequence * g.micro * g.hidden
	statistic := 4 * g.sequence * g.micro * g.heads / tensor
	if sequence {
		return 34*sbh/tensor + statistic
	}
	return 10*sbh + 24*sbh/tensor + statistic
}

// peak counts the activations of the first stage under 1F1B: of min(p, M) microbatches its
// layers, with the mask of dropout after the embedding and tokens of 4 bytes; of a pipeline
// a result on its way and a gradient that has come; else what comes after the layers: the
// inputs of the last norm and of the head, logits in fp32, targets, and the loss.
func (g gpt) peak(tensor, stages, microbatches int64, sequence bool) int64 {
	tokens := g.sequence * g.micro
	result := 2 * tokens * g.hidden
	if sequence {
		result /= tensor
	}
	flight := min(stages, microbatches)
	kept := flight * (g.layers/stages*g.layer(tensor, sequence) + result/2 + 4*tokens)
	if stages > 1 {
		return kept + 2*result
	}
	return kept + 2*result + 4*tokens*g.vocab/tensor + 4*tokens + 4
}

// predicted returns the activations of the first rank at its peak.
func (g gpt) predicted(t *testing.T, sets ...string) int64 {
	c, err := configs.Parse("gpt", fmt.Appendf(nil, `schedule = {name = "1f1b"}
model = {family = "gpt", layers = %d, hidden = %d, heads = %d, vocab = %d, sequence_length = %d, dropout = 0.1, attention = "flash"}
train = {precision = "bf16", gradients = "fp32"}
batch = {micro = %d}
machine = {device = "a100-80gb-sxm"}`, g.layers, g.hidden, g.heads, g.vocab, g.sequence, g.micro), sets...)
	require.NoError(t, err)
	p, err := psim.Predict(context.Background(), c)
	require.NoError(t, err)
	return p.Result.Ranks[0].Memory.Activations
}

// The activations at the peak are the published formulas' to the byte.
func TestMegatronActivations(t *testing.T) {
	for _, g := range []gpt{{256, 8, 1024, 128, 8, 1}, {128, 16, 512, 64, 16, 3}} {
		for _, tensor := range []int64{1, 2, 4} {
			for _, stages := range []int64{1, 2, 4} {
				for _, microbatches := range []int64{2, 3, 8} {
					for _, sequence := range []bool{false, true}[:min(tensor, 2)] {
						got := g.predicted(t, fmt.Sprint("parallel.tensor=", tensor), fmt.Sprint("parallel.sequence=", sequence),
							fmt.Sprint("schedule.stages=", stages), fmt.Sprint("schedule.microbatches=", microbatches), g.cut(stages))
						require.Equal(t, g.peak(tensor, stages, microbatches, sequence), got,
							"%+v, tensor %d, %d stages, %d microbatches, sequence %v", g, tensor, stages, microbatches, sequence)
					}
				}
			}
		}
	}
}

// cut gives every stage as many layers.
func (g gpt) cut(stages int64) string {
	if stages == 1 {
		return "schedule.partition=balanced"
	}
	text := fmt.Sprint("schedule.partition=[", g.layers/stages+1)
	for range stages - 2 {
		text += fmt.Sprint(",", g.layers/stages)
	}
	return text + fmt.Sprint(",", g.layers/stages+2, "]")
}

// With v chunks of layers on a rank, 1 + (p − 1)/(pv) times as many are in flight (Narayanan
// et al. 2021, as Megatron-LM's formula has it): twice the layers take that much more.
func TestMegatronInterleaved(t *testing.T) {
	for _, tensor := range []int64{1, 2} {
		for _, stages := range []int64{2, 4} {
			for _, virtual := range []int64{2, 4} {
				peak := func(layers int64) int64 {
					g := gpt{128, 8, 512, 64, layers, 1}
					return g.predicted(t, "schedule.name=interleaved-1f1b", fmt.Sprint("parallel.tensor=", tensor), fmt.Sprint("parallel.sequence=", tensor > 1),
						fmt.Sprint("schedule.stages=", stages), fmt.Sprint("schedule.virtual_stages=", virtual), "schedule.microbatches=16",
						g.cut(stages*virtual))
				}
				layer := gpt{128, 8, 512, 64, 16, 1}.layer(tensor, true)
				require.Equal(t, layer*(16+16*(stages-1)/(stages*virtual)), peak(32)-peak(16), "tensor %d, %d stages × %d", tensor, stages, virtual)
			}
		}
	}
}
