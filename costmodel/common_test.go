package costmodel_test

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/partition"
	"psim/schedules/wiring"
	"psim/sim"
)

// tester is what testing.T and rapid.T have in common.
type tester interface {
	require.TestingT
	Helper()
}

// device computes 1 TFLOP/s and moves 100 GB/s, and reaches all of it.
func device() costmodel.Device {
	return costmodel.Device{
		Name: "test", MemoryBandwidth: 1e11, Peak: costmodel.Peak{FP32: 1e12, FP16: 2e12, BF16: 2e12, FP8: 4e12, FP4: 8e12},
		Efficiency: costmodel.Efficiency{FP32: 1, FP16: 1, BF16: 1, FP8: 1, FP4: 1, Memory: 1}, Launch: 1000, HalfRows: 10,
	}
}

// machine is devices on a link of 10 GB/s and 2 µs.
func machine() costmodel.Machine {
	return costmodel.Machine{Device: device(), Link: link.Link{Name: "test", Bandwidth: 1e10, Latency: 2000}}
}

// build builds a model.
func build(t tester, m models.Model) network.Network {
	t.Helper()
	n, err := m.Network()
	require.NoError(t, err)
	return n
}

func smallGPT(t tester) network.Network {
	return build(t, models.Model{Family: "gpt", Layers: 4, Hidden: 32, Heads: 4, Vocab: 50, SequenceLength: 16})
}

// recomputations are all ways of it: nothing, words, modules, numbers of blocks.
func recomputations() []training.Options {
	return []training.Options{
		{}, {Recompute: "selective"}, {Recompute: "full"}, {Recompute: "core_attn,norm"}, {Recompute: "mlp"},
		{Recompute: "full", RecomputeLayers: 2}, {Recompute: "full", RecomputeLayers: 1, RecomputeMethod: training.RecomputeBlock},
	}
}

func gpt2(t tester) network.Network { return build(t, models.Model{Preset: "gpt2"}) }

func mlp(t tester, layers, hidden int) network.Network {
	return build(t, models.Model{Family: "mlp", Layers: layers, Hidden: hidden})
}

// workload cuts a network into equal stages on the given ranks.
func workload(t tester, n network.Network, stageRank []int32, samples ...int64) stages.Workload {
	t.Helper()
	layers, err := partition.Equal(len(n.Layers), len(stageRank))
	require.NoError(t, err)
	return stages.Workload{Network: n, Layers: layers, Placement: graph.Placement{First: stageRank}, Samples: samples, Replicas: 1}
}

// orderOf is the compute order of a schedule for a workload.
func orderOf(t tester, schedule string, w stages.Workload) order.Order {
	t.Helper()
	s, err := schedules.Find(schedule)
	require.NoError(t, err)
	o, err := s.Order(shape(w), w.Placement.First)
	require.NoError(t, err)
	return o
}

func shape(w stages.Workload) graph.Shape {
	return graph.Shape{Ranks: int(slices.Max(w.Placement.First)) + 1, Microbatches: len(w.Samples), Replicas: w.Replicas}
}

// graphOf wires a workload in a compute order.
func graphOf(t tester, w stages.Workload, o order.Order) *graph.Graph {
	t.Helper()
	p := wiring.Pipeline{Name: "test", Shape: shape(w), Order: o, Optimizer: true}
	w.Staged().Fill(&p)
	g, err := p.Graph()
	require.NoError(t, err)
	require.NoError(t, g.Validate())
	return g
}

// synced has the replicas sum gradients in buckets.
func synced(w stages.Workload, bucket int64, overlap bool) stages.Workload {
	w.Bucket, w.Overlap = bucket, overlap
	return w
}

// parameters is the number that the rank of a stage holds for it.
func parameters(w stages.Workload, stage int) int64 { return w.Staged().Stages[stage].Parameters }

// tiedSums is what the ranks of a replica sum among themselves.
func tiedSums(w stages.Workload) []wiring.Tied {
	var p wiring.Pipeline
	w.Staged().Fill(&p)
	return p.Tied
}

// stepOf wires a workload, prices the graph and runs it.
func stepOf(t tester, w stages.Workload, m costmodel.Machine, o order.Order) *graph.Trace {
	t.Helper()
	return simulate(t, w, m, graphOf(t, w, o))
}

// simulate prices a graph and runs it.
func simulate(t tester, w stages.Workload, m costmodel.Machine, g *graph.Graph) *graph.Trace {
	t.Helper()
	costs, err := costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
	return run(t, g, costs)
}

func run(t tester, g *graph.Graph, costs graph.Costs) *graph.Trace {
	t.Helper()
	trace, err := sim.Run(g, costs)
	require.NoError(t, err)
	return trace
}

// ledger follows the memory of every rank through a trace: it never falls
// below what persists, and ends there. It returns the peaks above that.
func ledger(t tester, trace *graph.Trace) []int64 {
	t.Helper()
	level, peak := make([]int64, trace.Graph.Ranks()), make([]int64, trace.Graph.Ranks())
	for _, e := range ordertest.Memory(trace) {
		level[e.Rank] += e.Bytes
		if level[e.Rank] < 0 {
			require.Fail(t, fmt.Sprintf("rank %d is at %d bytes after %s at %v", e.Rank, level[e.Rank], trace.Graph.Describe(e.Task), e.At))
		}
		peak[e.Rank] = max(peak[e.Rank], level[e.Rank])
	}
	for r, left := range level {
		require.Zero(t, left, "rank %d", r)
	}
	return peak
}

// costsOf prices a graph without running it.
func costsOf(t tester, w stages.Workload, m costmodel.Machine, g *graph.Graph) graph.Costs {
	t.Helper()
	costs, err := costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
	return costs
}

// algorithmOf names the algorithm whose time a link takes, or "measured".
func algorithmOf(l link.Link, k graph.Kind, n int, bytes int64) string {
	took, bare := l.CollectiveTime(k, n, bytes), l.WithoutTables()
	for _, name := range []string{link.RingAlgorithm, link.TreeAlgorithm, link.Hierarchical, link.HalvingDoubling} {
		if bare.Algorithm = name; bare.CollectiveTime(k, n, bytes) == took {
			return name
		}
	}
	return "measured"
}
