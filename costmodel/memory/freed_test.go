package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel/memory"
)

const freedBlocks = `
[schedule]
name = "ddp"
[model]
family = "llama"
layers = 3
hidden = 64
heads = 2
ffn_hidden = 128
vocab = 512
sequence_length = 64
attention = "flash"
[batch]
micro = 4
[train]
precision = "bf16"
master_weights = "none"
[machine]
device = "a100-80gb-sxm"
devices_per_node = 8
link = "nvlink3-a100"
`

// levels follows the memory of rank 0 through a step: what lasts, the peak, and what is left at the end.
func levels(t *testing.T, sets ...string) (lasting, peak, left, gradients int64) {
	config, err := configs.Parse("x", []byte(freedBlocks), sets...)
	require.NoError(t, err)
	experiment, err := config.Build()
	require.NoError(t, err)
	g := experiment.Graph
	ledger := memory.NewLedger(experiment.Staged, g)
	lasting = memory.Persistent(experiment.Staged, g.Ranks())[0]
	left, peak = lasting, lasting
	gradients = memory.PersistentBreakdown(experiment.Staged, g.Ranks())[0].Gradients
	for i := range int32(g.Len()) { // one stream, so tasks run in this order
		task := new(g.Task(i))
		if task.Rank != 0 {
			continue
		}
		start, end := ledger.Task(task)
		peak = max(peak, left+start)
		left += start + end
	}
	return lasting, peak, left, gradients
}

// Gradients that the update frees are there from the backward of their layer on: with little else at its end, all
// of them at the peak, and with many activations only those of the head, where it begins.
func TestFreedGradients(t *testing.T) {
	const parameters, head = 3*(4*64*64+3*64*128+2*64) + 64 + 2*512*64, 512 * 64
	for _, c := range []struct {
		sets []string
		less int64 // bytes of gradients that are missing at the peak
	}{
		{[]string{"batch.micro=400"}, 2 * (parameters - head)},
		{[]string{"batch.micro=400", "train.recompute=full"}, 2 * (parameters - head)},
		{[]string{"batch.micro=1", "model.sequence_length=1"}, 0},
	} {
		lasting, peak, left, gradients := levels(t, c.sets...)
		require.Equal(t, lasting, left)
		require.EqualValues(t, 2*parameters, gradients)
		less, freed, end, none := levels(t, append(c.sets, "memory.freed_gradients=true")...)
		require.Equal(t, lasting-gradients, less, c.sets)
		require.Equal(t, less, end, c.sets)
		require.Zero(t, none)
		require.InDelta(t, peak-c.less, freed, 64*64*4, c.sets)
	}
}

// Gradients of earlier microbatches wait, and so do DDP's buckets: nothing changes.
func TestGradientsThatStay(t *testing.T) {
	for _, sets := range [][]string{
		{"schedule.microbatches=3"}, {"parallel.data=2"}, {"train.update_in=backward"},
	} {
		lasting, peak, left, _ := levels(t, sets...)
		require.Equal(t, lasting, left)
		l, p, e, _ := levels(t, append(sets, "memory.freed_gradients=true")...)
		require.Equal(t, []int64{lasting, peak, left}, []int64{l, p, e}, fmt.Sprint(sets))
	}
	for _, zero := range []int{2, 3} { // shares of replicas come and go
		sets := []string{"parallel.data=2", fmt.Sprint("parallel.zero=", zero)}
		lasting, _, _, gradients := levels(t, sets...)
		less, _, end, _ := levels(t, append(sets, "memory.freed_gradients=true")...)
		require.Equal(t, lasting-gradients, less)
		require.Equal(t, less, end)
	}
}

// An update in many kernels holds the roots of the second moments meanwhile.
func TestRootsOfMoments(t *testing.T) {
	const parameters = 3*(4*64*64+3*64*128+2*64) + 64 + 2*512*64
	small := []string{"batch.micro=1", "model.sequence_length=1"}
	for moments, bytes := range map[string]int64{"fp32": 4, "bf16": 2} {
		lasting, peak, left, _ := levels(t, append(small, "train.update_kernels=foreach", "train.moments="+moments)...)
		require.Equal(t, lasting, left)
		require.Equal(t, lasting+bytes*parameters, peak, moments)
	}
}
