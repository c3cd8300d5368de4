package train_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/schedules/wiring"
)

// Every way to spread a step trains to the weights of the unsplit run, on every replica, also
// if microbatches and replicas have different numbers of targets that count.
func TestModesTrainAsUnsplit(t *testing.T) {
	modes := []exectest.Spread{
		{Schedule: "ddp", Ranks: 1, Replicas: 2}, {Schedule: "ddp", Ranks: 1, Replicas: 3},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 2000},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Bucket: 1 << 30},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true, Backward: training.BackwardPerLayer},
		{Schedule: "gpipe", Ranks: 2, Replicas: 2},
		{Schedule: "1f1b", Ranks: 3, Replicas: 2, Bucket: 2000, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true, Backward: training.BackwardTwoPass},
		{Schedule: "gpipe", Ranks: 3, Replicas: 1, Backward: training.BackwardTwoPass},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Backward: training.BackwardTwoPass},
		{Schedule: "gpipe", Ranks: 2, Replicas: 1, Backward: training.BackwardPerLayer},
		{Schedule: "1f1b", Ranks: 2, Replicas: 1, Recompute: kernels.RepeatLayer},
		{Schedule: "gpipe", Ranks: 3, Replicas: 1, Recompute: kernels.RepeatStage},
		{Schedule: "model-parallel", Ranks: 3, Replicas: 1},
		{Schedule: "gpipe", Ranks: 2, Replicas: 1, AtHead: true},
		{Schedule: "model-parallel", Ranks: 3, Replicas: 1, AtHead: true},
		{Schedule: "gpipe", Ranks: 2, Replicas: 2, AtHead: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 1, Sharded: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, Overlap: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, Gloo: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Recompute: kernels.RepeatLayer},
		{Schedule: "ddp", Ranks: 1, Replicas: 3, Sharded: true, PerTensor: true, Simplified: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, PerTensor: true, Overlap: true},
		{Schedule: "gpipe", Ranks: 3, Replicas: 1, Synchronous: true},
		{Schedule: "1f1b", Ranks: 2, Replicas: 2, Synchronous: true},
		{Schedule: "interleaved-1f1b", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "interleaved-1f1b", Ranks: 3, Replicas: 1, Virtual: 2},
		{Schedule: "interleaved-1f1b", Ranks: 2, Replicas: 2, Virtual: 3, Bucket: 2000, Overlap: true},
		{Schedule: "looped-bfs", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "looped-bfs", Ranks: 3, Replicas: 1, Virtual: 2},
		{Schedule: "zb-h1", Ranks: 2, Replicas: 1},
		{Schedule: "zb-h1", Ranks: 3, Replicas: 1, Backward: training.BackwardPerLayer},
		{Schedule: "zb-h1", Ranks: 2, Replicas: 2},
		{Schedule: "zb-h2", Ranks: 2, Replicas: 1},
		{Schedule: "zb-h2", Ranks: 3, Replicas: 1, Recompute: kernels.RepeatLayer},
		{Schedule: "interleaved-zero-bubble", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "interleaved-zero-bubble", Ranks: 3, Replicas: 1, Virtual: 2},
		{Schedule: "hw4", Ranks: 2, Replicas: 1}, {Schedule: "hw4", Ranks: 3, Replicas: 1, AtHead: true},
		{Schedule: "zbv", Ranks: 2, Replicas: 1},
		{Schedule: "zbv", Ranks: 3, Replicas: 1, Backward: training.BackwardPerLayer},
		{Schedule: "zbv", Ranks: 2, Replicas: 2, Bucket: 2000, Overlap: true},
		{Schedule: "v-half", Ranks: 2, Replicas: 1, Microbatches: 6}, {Schedule: "v-half", Ranks: 3, Replicas: 2},
		{Schedule: "v-min", Ranks: 2, Replicas: 1}, {Schedule: "v-min", Ranks: 3, Replicas: 1, Microbatches: 6},
		{Schedule: "dualpipev", Ranks: 2, Replicas: 1, Microbatches: 4},
		{Schedule: "dualpipev", Ranks: 3, Replicas: 1, Microbatches: 6},
		{Schedule: "dualpipev", Ranks: 2, Replicas: 1, Microbatches: 6, Pairs: wiring.Overlap},
		{Schedule: "dualpipe", Ranks: 2, Replicas: 1, Microbatches: 4},
		{Schedule: "dualpipe", Ranks: 2, Replicas: 1, Microbatches: 6, Backward: training.BackwardPerLayer},
		{Schedule: "chimera", Ranks: 2, Replicas: 1, Microbatches: 4},
		{Schedule: "chimera", Ranks: 2, Replicas: 2, Microbatches: 2, Bucket: 2000, Overlap: true},
		{Schedule: "chimera", Ranks: 4, Replicas: 1, Microbatches: 4},
		{Schedule: "hanayo", Ranks: 2, Replicas: 1, Virtual: 2},
		{Schedule: "hanayo", Ranks: 2, Replicas: 2, Virtual: 2, Bucket: 2000, Overlap: true},
		{Schedule: "hanayo", Ranks: 3, Replicas: 1, Virtual: 2, Microbatches: 6},
		{Schedule: "hanayo", Ranks: 1, Replicas: 1, Virtual: 4, Backward: training.BackwardPerLayer},
	}
	for _, m := range loopModes() {
		if m.Schedule == "dualpipe" || m.Schedule == "chimera" {
			m.Microbatches = 4
		}
		modes = append(modes, m)
	}
	modes = append(modes, splitModes()...)
	modes = append(modes, exectest.Spread{Schedule: "gpipe", Ranks: 3, Replicas: 1, Recompute: kernels.RepeatStage, Loop: true},
		exectest.Spread{Schedule: "dualpipev", Ranks: 2, Replicas: 1, Microbatches: 6, Pairs: wiring.Overlap, Loop: true})
	for kind, n := range map[string]network.Network{
		"gpt": exectest.TiedGPT(t), "vgg": exectest.Preset(t, "vgg-mini-pipeline"),
	} {
		if testing.Short() && kind != "gpt" {
			continue // only one network goes through all of it
		}
		const samples, steps = 12, 3
		all := exectest.Batches(t, n, samples, steps)
		want, wantLosses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
		for _, m := range modes {
			if m.AtHead && kind != "gpt" {
				continue
			}
			t.Run(kind+"/"+m.String(), func(t *testing.T) {
				sizes := []int{samples / m.Replicas / 2, samples / m.Replicas / 2}
				switch {
				case m.Microbatches > 0:
					sizes = slices.Repeat([]int{samples / m.Replicas / m.Microbatches}, m.Microbatches)
				case m.Replicas == 1:
					sizes = []int{5, 5, 2}
				}
				got, losses := trainSteps(t, m.Job(t, n, sizes), all, 7)
				require.Less(t, difference(t, want, got), 1e-5)
				require.InDeltaSlice(t, wantLosses, losses, 1e-4)
			})
		}
	}
}

// A replica's last microbatch may be smaller than its others, in every way to spread
// a step.
func TestRaggedLastMicrobatch(t *testing.T) {
	const samples, steps = 12, 3
	n := exectest.TiedGPT(t)
	all := exectest.Batches(t, n, samples, steps)
	want, wantLosses := trainSteps(t, exectest.Unsplit(t, n, samples), all, 0)
	for _, m := range []exectest.Spread{
		{Schedule: "ddp", Ranks: 1, Replicas: 2},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Bucket: 3000, Overlap: true, Backward: training.BackwardPerLayer},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true},
		{Schedule: "ddp", Ranks: 1, Replicas: 2, Sharded: true, Gloo: true, Overlap: true},
		{Schedule: "1f1b", Ranks: 2, Replicas: 2, Recompute: kernels.RepeatLayer},
		{Schedule: "zb-h1", Ranks: 3, Replicas: 2},
	} {
		t.Run(m.String(), func(t *testing.T) {
			got, losses := trainSteps(t, m.Job(t, n, []int{3, 2, 1}), all, 7)
			require.Less(t, difference(t, want, got), 1e-5)
			require.InDeltaSlice(t, wantLosses, losses, 1e-4)
		})
	}
}
