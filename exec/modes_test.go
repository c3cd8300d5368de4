package exec_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/exec"
	"psim/exec/programs"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/partition"
	"psim/schedules/wiring"
)

// training is what all tests train with.
var trainOptions = training.Options{Precision: "fp32", Optimizer: "adamw"}

// mode is a way to spread a step over devices.
type mode struct {
	schedule        string
	ranks, replicas int
	bucket          int64 // 0: one tensor at a time
	overlap         bool
	backward        string // training.Options's
	recompute       programs.Recompute
	atHead          bool    // network.GPT2Placement, with the head on the table's rank
	sharded, gloo   bool    // ZeRO 3, without reduce-scatter
	perTensor       bool    // ZeRO 3, tensor by tensor
	simplified      bool    // ZeRO 3, with the whole model kept
	shards          []int64 // samples of a microbatch by replica, where they differ
	broadcast       bool    // of the first replica's parameters
	synchronous     bool    // in clock cycles
	virtual         int     // stages per rank; 0 is 1
	microbatches    int     // 0: two or three
	pairs           wiring.Pairing
}

func (m mode) String() string {
	return fmt.Sprintf("%s/%d×%d/bucket %d/overlap %v/backward %s/recompute %d/at head %v/sharded %v/gloo %v/per tensor %v/simplified %v/shards %v/broadcast %v/synchronous %v/virtual %d/microbatches %d/pairs %d",
		m.schedule, m.ranks, m.replicas, m.bucket, m.overlap, m.backward, m.recompute, m.atHead, m.sharded, m.gloo, m.perTensor, m.simplified, m.shards, m.broadcast, m.synchronous, m.virtual, m.microbatches, m.pairs)
}

// tiedGPT is a GPT-2 of three blocks whose head is the table of its embedding.
func tiedGPT(t testing.TB) network.Network {
	n, err := models.Model{Family: "gpt", Layers: 3, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8}.Network()
	require.NoError(t, err)
	return n
}

func (m mode) shape(samples []int) graph.Shape {
	return graph.Shape{Ranks: m.ranks, Virtual: m.virtual, Microbatches: len(samples), Replicas: m.replicas}
}

// workload is what a configuration makes of a network.
func (m mode) workload(t testing.TB, n network.Network, samples []int) stages.Workload {
	s, err := schedules.Find(m.schedule)
	require.NoError(t, err)
	w := stages.Workload{Network: n, Training: trainOptions, Replicas: m.replicas, Bucket: m.bucket, Overlap: m.overlap, NoReduceScatter: m.gloo, PerTensor: m.perTensor, Simplified: m.simplified, Shards: m.shards, Broadcast: m.broadcast, Placement: s.Placement(m.shape(samples))}
	if w.Layers, err = partition.Equal(len(n.Layers), len(w.Placement.First)); m.atHead {
		w.Layers, w.Placement.First, err = models.GPT2Placement(n, m.ranks)
	}
	if m.sharded {
		w.Zero, w.Layers, w.Placement.First = 3, slices.Repeat([]int{1}, len(n.Layers)), make([]int32, len(n.Layers))
	}
	require.NoError(t, err)
	for _, n := range samples {
		w.Samples = append(w.Samples, int64(n))
	}
	w.Training.Backward = m.backward
	if m.recompute == programs.RepeatLayer {
		w.Training.Recompute = "full"
	}
	return w
}

// job builds the graph as a configuration would, from the network.
func (m mode) job(t testing.TB, n network.Network, samples []int) exec.Job {
	w := m.workload(t, n, samples)
	shape := m.shape(samples)
	s, err := schedules.Find(m.schedule)
	require.NoError(t, err)
	p, err := s.Pipeline(shape, w.Placement.First)
	require.NoError(t, err)
	staged := w.Staged()
	staged.Fill(&p)
	p.Optimizer, p.Synchronous = true, m.synchronous
	p.Pairs = m.pairs
	g, err := p.Graph()
	require.NoError(t, err)
	return exec.Job{
		Graph: g, Staged: staged, Optimizer: programs.DefaultOptimizer("adamw"), Recompute: m.recompute, Seed: 1390,
	}
}

// Every way to spread a step trains to the weights of the unsplit run, on every
// replica, also where microbatches and replicas have unequal numbers of targets that
// count.
func TestModesTrainAsUnsplit(t *testing.T) {
	modes := []mode{
		{schedule: "ddp", ranks: 1, replicas: 2}, {schedule: "ddp", ranks: 1, replicas: 3},
		{schedule: "ddp", ranks: 1, replicas: 2, bucket: 2000}, {schedule: "ddp", ranks: 1, replicas: 3, bucket: 1 << 30},
		{schedule: "ddp", ranks: 1, replicas: 2, overlap: true}, {schedule: "ddp", ranks: 1, replicas: 2, bucket: 3000, overlap: true},
		{schedule: "ddp", ranks: 1, replicas: 2, bucket: 3000, overlap: true, backward: training.BackwardPerLayer},
		{schedule: "gpipe", ranks: 2, replicas: 2}, {schedule: "1f1b", ranks: 3, replicas: 2, bucket: 2000, overlap: true},
		{schedule: "ddp", ranks: 1, replicas: 2, bucket: 3000, overlap: true, backward: training.BackwardTwoPass},
		{schedule: "gpipe", ranks: 3, replicas: 1, backward: training.BackwardTwoPass}, {schedule: "ddp", ranks: 1, replicas: 2, sharded: true, backward: training.BackwardTwoPass},
		{schedule: "gpipe", ranks: 2, replicas: 1, backward: training.BackwardPerLayer}, {schedule: "1f1b", ranks: 2, replicas: 1, recompute: programs.RepeatLayer},
		{schedule: "gpipe", ranks: 3, replicas: 1, recompute: programs.RepeatStage}, {schedule: "model-parallel", ranks: 3, replicas: 1},
		{schedule: "gpipe", ranks: 2, replicas: 1, atHead: true}, {schedule: "model-parallel", ranks: 3, replicas: 1, atHead: true},
		{schedule: "gpipe", ranks: 2, replicas: 2, atHead: true},
		{schedule: "ddp", ranks: 1, replicas: 1, sharded: true}, {schedule: "ddp", ranks: 1, replicas: 2, sharded: true},
		{schedule: "ddp", ranks: 1, replicas: 2, sharded: true, overlap: true}, {schedule: "ddp", ranks: 1, replicas: 3, sharded: true, overlap: true},
		{schedule: "ddp", ranks: 1, replicas: 3, sharded: true, gloo: true}, {schedule: "ddp", ranks: 1, replicas: 2, sharded: true, recompute: programs.RepeatLayer},
		{schedule: "ddp", ranks: 1, replicas: 3, sharded: true, perTensor: true, simplified: true}, {schedule: "ddp", ranks: 1, replicas: 2, sharded: true, perTensor: true, overlap: true},
		{schedule: "gpipe", ranks: 3, replicas: 1, synchronous: true}, {schedule: "1f1b", ranks: 2, replicas: 2, synchronous: true},
		{schedule: "interleaved-1f1b", ranks: 2, replicas: 1, virtual: 2}, {schedule: "interleaved-1f1b", ranks: 3, replicas: 1, virtual: 2},
		{schedule: "interleaved-1f1b", ranks: 2, replicas: 2, virtual: 3, bucket: 2000, overlap: true},
		{schedule: "looped-bfs", ranks: 2, replicas: 1, virtual: 2}, {schedule: "looped-bfs", ranks: 3, replicas: 1, virtual: 2},
		{schedule: "zb-h1", ranks: 2, replicas: 1}, {schedule: "zb-h1", ranks: 3, replicas: 1, backward: training.BackwardPerLayer}, {schedule: "zb-h1", ranks: 2, replicas: 2},
		{schedule: "zb-h2", ranks: 2, replicas: 1}, {schedule: "zb-h2", ranks: 3, replicas: 1, recompute: programs.RepeatLayer},
		{schedule: "interleaved-zero-bubble", ranks: 2, replicas: 1, virtual: 2}, {schedule: "interleaved-zero-bubble", ranks: 3, replicas: 1, virtual: 2},
		{schedule: "hw4", ranks: 2, replicas: 1}, {schedule: "hw4", ranks: 3, replicas: 1, atHead: true},
		{schedule: "zbv", ranks: 2, replicas: 1}, {schedule: "zbv", ranks: 3, replicas: 1, backward: training.BackwardPerLayer},
		{schedule: "zbv", ranks: 2, replicas: 2, bucket: 2000, overlap: true},
		{schedule: "v-half", ranks: 2, replicas: 1, microbatches: 6}, {schedule: "v-half", ranks: 3, replicas: 2},
		{schedule: "v-min", ranks: 2, replicas: 1}, {schedule: "v-min", ranks: 3, replicas: 1, microbatches: 6},
		{schedule: "dualpipev", ranks: 2, replicas: 1, microbatches: 4}, {schedule: "dualpipev", ranks: 3, replicas: 1, microbatches: 6},
		{schedule: "dualpipev", ranks: 2, replicas: 1, microbatches: 6, pairs: wiring.Overlap},
		{schedule: "dualpipe", ranks: 2, replicas: 1, microbatches: 4}, {schedule: "dualpipe", ranks: 2, replicas: 1, microbatches: 6, backward: training.BackwardPerLayer},
		{schedule: "chimera", ranks: 2, replicas: 1, microbatches: 4}, {schedule: "chimera", ranks: 2, replicas: 2, microbatches: 2, bucket: 2000, overlap: true},
		{schedule: "chimera", ranks: 4, replicas: 1, microbatches: 4},
		{schedule: "hanayo", ranks: 2, replicas: 1, virtual: 2}, {schedule: "hanayo", ranks: 2, replicas: 2, virtual: 2, bucket: 2000, overlap: true},
		{schedule: "hanayo", ranks: 3, replicas: 1, virtual: 2, microbatches: 6}, {schedule: "hanayo", ranks: 1, replicas: 1, virtual: 4, backward: training.BackwardPerLayer},
	}
	for kind, n := range map[string]network.Network{"gpt": tiedGPT(t), "vgg": preset(t, "vgg-mini-pipeline")} {
		if testing.Short() && kind != "gpt" {
			continue // one network goes through all of it
		}
		const samples, steps = 12, 3
		all := batches(t, n, samples, steps)
		want, wantLosses := train(t, job(t, n, "gpipe", 1, []int{samples}, false), all, 0)
		for _, m := range modes {
			if m.atHead && kind != "gpt" {
				continue
			}
			t.Run(kind+"/"+m.String(), func(t *testing.T) {
				sizes := []int{samples / m.replicas / 2, samples / m.replicas / 2}
				switch {
				case m.microbatches > 0:
					sizes = slices.Repeat([]int{samples / m.replicas / m.microbatches}, m.microbatches)
				case m.replicas == 1:
					sizes = []int{5, 5, 2}
				}
				got, losses := train(t, m.job(t, n, sizes), all, 7)
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
	n := tiedGPT(t)
	all := batches(t, n, samples, steps)
	want, wantLosses := train(t, job(t, n, "gpipe", 1, []int{samples}, false), all, 0)
	for _, m := range []mode{
		{schedule: "ddp", ranks: 1, replicas: 2}, {schedule: "ddp", ranks: 1, replicas: 2, bucket: 3000, overlap: true, backward: training.BackwardPerLayer},
		{schedule: "ddp", ranks: 1, replicas: 2, sharded: true}, {schedule: "ddp", ranks: 1, replicas: 2, sharded: true, gloo: true, overlap: true},
		{schedule: "1f1b", ranks: 2, replicas: 2, recompute: programs.RepeatLayer}, {schedule: "zb-h1", ranks: 3, replicas: 2},
	} {
		t.Run(m.String(), func(t *testing.T) {
			got, losses := train(t, m.job(t, n, []int{3, 2, 1}), all, 7)
			require.Less(t, difference(t, want, got), 1e-5)
			require.InDeltaSlice(t, wantLosses, losses, 1e-4)
		})
	}
}
