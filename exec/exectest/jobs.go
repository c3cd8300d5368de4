// Package exectest has what the tests of execution share: small networks, jobs, ways to
// spread a step over devices, and processes that are goroutines.
package exectest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/exec/train"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/partition"
	"psim/schedules/wiring"
)

// trainOptions are the settings of all jobs.
var trainOptions = training.Options{Precision: "fp32", Optimizer: "adamw"}

// A Spread is a way to spread a step over devices.
type Spread struct {
	Schedule        string
	Ranks, Replicas int
	Bucket          int64 // 0: one tensor at a time
	Overlap         bool
	Backward, Split string // training.Options's
	Recompute       kernels.Recompute
	AtHead          bool    // models.GPT2Placement, with the head on the table's rank
	Sharded, Gloo   bool    // ZeRO 3, without reduce-scatter
	Group           int     // replicas of a group of ZeRO 3; 0: all
	PerTensor       bool    // ZeRO 3, tensor by tensor
	Simplified      bool    // ZeRO 3, with the whole model kept
	Shards          []int64 // samples of a microbatch by replica, where they differ
	Broadcast       bool    // of the first replica's parameters
	Synchronous     bool    // in clock cycles
	Virtual         int     // stages per rank; 0 is 1
	Microbatches    int     // 0: two or three
	Pairs           wiring.Pairing
	Loop            bool // zeroing and the loss are tasks
}

// String lists all fields; it names a subtest.
func (m Spread) String() string {
	return fmt.Sprintf("%s/%d×%d/bucket %d/overlap %v/backward %s/split %s/recompute %d/at head %v/sharded %v/gloo %v/"+
		"group %d/per tensor %v/simplified %v/shards %v/broadcast %v/synchronous %v/virtual %d/microbatches %d/"+
		"pairs %d/loop %v",
		m.Schedule, m.Ranks, m.Replicas, m.Bucket, m.Overlap, m.Backward, m.Split, m.Recompute, m.AtHead,
		m.Sharded, m.Gloo, m.Group, m.PerTensor, m.Simplified, m.Shards, m.Broadcast, m.Synchronous, m.Virtual,
		m.Microbatches, m.Pairs, m.Loop)
}

func (m Spread) shape(samples []int) graph.Shape {
	return graph.Shape{Ranks: m.Ranks, Virtual: m.Virtual, Microbatches: len(samples), Replicas: m.Replicas}
}

// Workload is what a configuration makes of a network.
func (m Spread) Workload(t testing.TB, n network.Network, samples []int) stages.Workload {
	s, err := schedules.Find(m.Schedule)
	require.NoError(t, err)
	w := stages.Workload{
		Network: n, Training: trainOptions, Replicas: m.Replicas, Bucket: m.Bucket, Overlap: m.Overlap,
		NoReduceScatter: m.Gloo, ZeroGroup: m.Group, PerTensor: m.PerTensor, Simplified: m.Simplified, Shards: m.Shards,
		Broadcast: m.Broadcast, Loop: m.Loop, Placement: s.Placement(m.shape(samples)),
	}
	if w.Layers, err = partition.Equal(len(n.Layers), len(w.Placement.First)); m.AtHead {
		w.Layers, w.Placement.First, err = models.GPT2Placement(n, m.Ranks)
	}
	if m.Sharded {
		w.Zero, w.Layers, w.Placement.First = 3, slices.Repeat([]int{1}, len(n.Layers)), make([]int32, len(n.Layers))
	}
	require.NoError(t, err)
	for _, n := range samples {
		w.Samples = append(w.Samples, int64(n))
	}
	w.Training.Backward, w.Training.Split = m.Backward, m.Split
	if m.Recompute == kernels.RepeatLayer {
		w.Training.Recompute = "full"
	}
	return w
}

// Job builds the graph as a configuration would, from the network.
func (m Spread) Job(t testing.TB, n network.Network, samples []int) train.Job {
	w := m.Workload(t, n, samples)
	shape := m.shape(samples)
	s, err := schedules.Find(m.Schedule)
	require.NoError(t, err)
	p, err := s.Pipeline(shape, w.Placement.First)
	require.NoError(t, err)
	staged := w.Staged()
	staged.Fill(&p)
	p.Optimizer, p.Synchronous = true, m.Synchronous
	p.Pairs = m.Pairs
	g, err := p.Graph()
	require.NoError(t, err)
	return train.Job{
		Graph: g, Staged: staged, Optimizer: kernels.DefaultOptimizer("adamw"), Recompute: m.Recompute, Seed: 1390,
	}
}

// Batches makes the same data for every run of a network.
func Batches(t testing.TB, n network.Network, samples, count int) []data.StepBatch {
	var list []data.StepBatch
	for range count {
		var indices []int
		for s := range samples {
			indices = append(indices, s) // the same in every step, so that the loss must fall
		}
		if n.Layers[0].Kind == network.KindEmbedding {
			set, err := data.MakeTokens(data.TokenRecipe{
				Samples: samples, Sequence: n.TokensPerSample, Vocabulary: n.Vocabulary(), Seed: 1,
			})
			require.NoError(t, err)
			inputs, targets := set.Batch(indices)
			ignoreSome(targets, n.TokensPerSample)
			list = append(list, data.StepBatch{Tokens: inputs, Targets: targets})
			continue
		}
		features, last := int(n.Layers[0].Input.Elements()), n.Layers[len(n.Layers)-1].Output
		set, err := data.MakeImages(data.ImageRecipe{
			Samples: samples, Channels: features, Height: 1, Width: 1, Classes: last[len(last)-1], Seed: 1,
		})
		require.NoError(t, err)
		pixels, labels := set.Batch(indices)
		list = append(list, data.StepBatch{Numbers: pixels, Targets: labels})
	}
	return list
}

// ignoreSome leaves every sample a different number of targets that count, and some samples none.
func ignoreSome(targets []int32, each int) {
	for s := 0; s*each < len(targets); s++ {
		for k := range s * s % (each + 1) {
			targets[s*each+k] = data.Ignored
		}
	}
}

// An Even job cuts a network into equal stages, in the order of a schedule.
type Even struct {
	Schedule string
	Ranks    int
	Samples  []int // by microbatch
	Split    bool  // every B into I and W
}

// Unsplit returns the job of a network on one device, with one microbatch.
func Unsplit(t testing.TB, n network.Network, samples int) train.Job {
	return Even{Schedule: "gpipe", Ranks: 1, Samples: []int{samples}}.Job(t, n)
}

// Job returns the job of a network.
func (e Even) Job(t testing.TB, n network.Network) train.Job {
	s, err := schedules.Find(e.Schedule)
	require.NoError(t, err)
	shape := graph.Shape{Ranks: e.Ranks, Microbatches: len(e.Samples)}
	o, err := s.Order(shape, nil)
	require.NoError(t, err)
	if e.Split {
		o = halves(o)
	}
	g, err := wiring.Pipeline{Name: e.Schedule, Shape: shape, Order: o, Optimizer: true}.Graph()
	require.NoError(t, err)
	layers, err := partition.Equal(len(n.Layers), e.Ranks)
	require.NoError(t, err)
	w := stages.Workload{Network: n, Layers: layers, Placement: graph.InOrder(e.Ranks)}
	for _, m := range e.Samples {
		w.Samples = append(w.Samples, int64(m))
	}
	return train.Job{Graph: g, Staged: w.Staged(), Optimizer: kernels.DefaultOptimizer("adamw"), Seed: 1390}
}

// halves replaces every B by I, and runs all W at the end.
func halves(o order.Order) order.Order {
	split := make(order.Order, len(o))
	for r, actions := range o {
		var later []order.Action
		for _, a := range actions {
			if a.Kind == graph.Backward {
				weights := order.Action{Kind: graph.WeightGradient, Stage: a.Stage, Microbatch: a.Microbatch}
				later = append(later, weights)
				a.Kind = graph.InputGradient
			}
			split[r] = append(split[r], a)
		}
		split[r] = append(split[r], later...)
	}
	return split
}

// PairsFile writes sentences whose targets have 1 to 12 bytes.
func PairsFile(t testing.TB) string {
	var text strings.Builder
	for i := range 12 {
		source, target := strings.Repeat("s", 1+i%3), strings.Repeat("t", 12-i)
		fmt.Fprintf(&text, `{"de": "%s", "en": "%s"}`+"\n", source, target)
	}
	file := filepath.Join(t.TempDir(), "pairs.json")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	return "pairs:" + file
}
