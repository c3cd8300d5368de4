package train_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/exec/data"
	"psim/exec/exectest"
	"psim/exec/kernels"
)

// frozen returns a network with frozen parts.
func frozen(t require.TestingT, n network.Network, parts string) network.Network {
	o := training.Options{Precision: "fp32", Optimizer: "adamw", Frozen: training.FrozenParts(parts)}
	require.NoError(t, o.CheckFrozen(n))
	return o.Adapted(n)
}

// requireStart requires that frozen weights are those of the start, to the bit, and that all others have changed.
func requireStart(t require.TestingT, n network.Network, got map[string][]float32) {
	for _, l := range n.Layers {
		for _, x := range l.Frozen {
			require.Equal(t, kernels.Initial[float32](1390, x), got[x.Name], x.Name)
		}
		for _, x := range l.Params {
			require.NotEqual(t, kernels.Initial[float32](1390, x), got[x.Name], x.Name)
		}
	}
}

// frozenModes are ways to spread a step with frozen parts.
func frozenModes() []exectest.Spread {
	return []exectest.Spread{
		{Schedule: "ddp", Ranks: 1, Replicas: 2}, {Schedule: "ddp", Ranks: 1, Replicas: 3, Bucket: 1 << 30},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true, Backward: training.BackwardPerLayer},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Broadcast: true},
		{Schedule: "gpipe", Ranks: 2, Replicas: 1}, {Schedule: "gpipe", Ranks: 3, Replicas: 2},
		{Schedule: "gpipe", Ranks: 2, Replicas: 1, AtHead: true},
		{Schedule: "gpipe", Ranks: 3, Replicas: 1, Recompute: kernels.RepeatStage},
		{Schedule: "gpipe", Ranks: 2, Replicas: 1, Backward: training.BackwardTwoPass},
		{Schedule: "gpipe", Ranks: 3, Replicas: 1, Loop: true},
		{Schedule: "1f1b", Ranks: 3, Replicas: 2, Bucket: 2000, Overlap: true},
		{Schedule: "1f1b", Ranks: 2, Replicas: 1, Recompute: kernels.RepeatLayer},
		{Schedule: "1f1b", Ranks: 2, Replicas: 1, Backward: training.BackwardPerLayer},
		{Schedule: "interleaved-1f1b", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "zb-h1", Ranks: 3, Replicas: 1}, {Schedule: "zbv", Ranks: 2, Replicas: 1},
		{Schedule: "zb-h1", Ranks: 2, Replicas: 1, Backward: training.BackwardPerLayer},
	}
}

// frozenNetworks are small GPTs, with a head of its own and with a tied one, and without and with dropout.
func frozenNetworks(t *testing.T) map[string]network.Network {
	return map[string]network.Network{
		"untied": exectest.MiniGPT(t), "tied": exectest.TiedGPT(t), "dropout": exectest.DroppingGPT(t, 0.25),
	}
}

// With frozen parts, every way to spread a step trains to the weights of the unsplit run with the same parts
// frozen, and frozen weights keep every bit.
func TestFrozenTrainsAsUnsplit(t *testing.T) {
	const samples, steps = 12, 3
	for kind, whole := range frozenNetworks(t) {
		for _, parts := range []string{"embedding", "embedding,blocks.0-1", "blocks.0", "blocks.1", "norm"} {
			if testing.Short() && (kind != "tied" || parts != "embedding,blocks.0-1") {
				continue
			}
			n := frozen(t, whole, parts)
			all := exectest.Batches(t, n, samples, steps)
			want, wantLosses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
			requireStart(t, n, want)
			for _, m := range frozenModes() {
				t.Run(kind+"/"+parts+"/"+m.String(), func(t *testing.T) {
					got, losses := trainSteps(t, m.Job(t, n, frozenSizes(m, samples)), all, 7)
					requireStart(t, n, got)
					require.Less(t, difference(t, want, got), 1e-5)
					require.InDeltaSlice(t, wantLosses, losses, 1e-4)
				})
			}
		}
	}
}

// frozenSizes divides the samples among the microbatches of a replica.
func frozenSizes(m exectest.Spread, samples int) []int {
	if m.Replicas == 1 {
		return []int{5, 5, 2}
	}
	return slices.Repeat([]int{samples / m.Replicas / 2}, 2)
}

// A random set of frozen parts changes nothing of the others' first step: their weights are those of a run in
// which all is trained, and the loss is the same. Frozen weights keep every bit, and later steps go as unsplit.
func TestRandomFrozenParts(t *testing.T) {
	const samples = 12
	networks, modes := frozenNetworks(t), frozenModes()
	rapid.Check(t, func(r *rapid.T) {
		whole := networks[rapid.SampledFrom([]string{"dropout", "tied", "untied"}).Draw(r, "network")]
		n := frozen(r, whole, drawParts(r, whole))
		all := exectest.Batches(t, whole, samples, 2)
		first := requireFirstStep(t, whole, n, all[:1])
		want, losses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
		require.InDelta(r, first, losses[0], 1e-6)
		requireStart(r, n, want)
		m := rapid.SampledFrom(modes).Draw(r, "spread")
		got, spread := trainSteps(t, m.Job(t, n, frozenSizes(m, samples)), all, 7)
		requireStart(r, n, got)
		require.Less(r, difference(t, want, got), 1e-5)
		require.InDeltaSlice(r, losses, spread, 1e-4)
	})
}

// requireFirstStep compares a first step with that of the network without frozen parts, and returns its loss.
func requireFirstStep(t *testing.T, whole, n network.Network, batch []data.StepBatch) float64 {
	const samples = 12
	want, losses := trainSteps(t, exectest.Unsplit(t, whole, samples), batch, 0)
	got, _ := trainSteps(t, exectest.Unsplit(t, n, samples), batch, 0)
	for _, l := range n.Layers {
		for _, x := range l.Params {
			worst := 0.0
			for i := range want[x.Name] {
				worst = max(worst, math.Abs(float64(want[x.Name][i]-got[x.Name][i])))
			}
			require.Less(t, worst, 1e-5, x.Name)
		}
	}
	return losses[0]
}

// drawParts draws parts to freeze that leave something to train.
func drawParts(r *rapid.T, n network.Network) string {
	var names []string
	blocks := 0
	for _, l := range n.Layers {
		if l.IsBlock() {
			names = append(names, fmt.Sprintf("blocks.%d", blocks))
			blocks++
		}
	}
	names = append(names, "embedding", "norm")
	if len(n.Layers[len(n.Layers)-1].Tied) == 0 {
		names = append(names, "head")
	}
	picked := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names)-1, rapid.ID[string]).Draw(r, "frozen")
	return strings.Join(picked, ",")
}
