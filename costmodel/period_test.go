package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/models"
	"psim/costmodel/stages"
	"psim/schedules/wiring"
)

// drawReplicas draws a training of many replicas on nodes, with experts or without.
func drawReplicas(t *rapid.T) (w stages.Workload, m costmodel.Machine) {
	experts := rapid.SampledFrom([]int{1, 1, 2, 4}).Draw(t, "experts")
	tensor := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "tensor")
	ranks := rapid.SampledFrom([][]int32{{0}, {0, 1}, {0, 1, 2, 3}, {0, 1, 2}}).Draw(t, "ranks")
	g := group.Group{Devices: tensor, Sequence: tensor > 1}
	n, err := models.Model{Family: "gpt", Layers: 4, Hidden: 32, Heads: 4, Vocab: 64, SequenceLength: 16}.On(g)
	require.NoError(t, err)
	if experts > 1 {
		g.Expert = experts
		n = mixture(t, g)
	}
	w = workload(t, n, ranks, 2, 2)
	w.Replicas = experts * rapid.IntRange(1, 12).Draw(t, "replicas")
	w.Zero = rapid.IntRange(0, 2).Draw(t, "zero")
	m = machine()
	m.Tensor, m.Network = tensor, m.Link
	m.Network.Bandwidth, m.Network.Latency = 1e9, 5000
	m.DevicesPerNode = tensor * rapid.SampledFrom([]int{0, 1, 2, 3, 4, 8}).Draw(t, "ranks of a node")
	m.NICsPerNode = rapid.IntRange(0, 5).Draw(t, "cards")
	m.Link.Shared = rapid.SampledFrom([]string{"device", "node"}).Draw(t, "shared")
	if rapid.Bool().Draw(t, "replicas first") {
		m.Stages, m.Replicas = len(ranks), w.Replicas
	}
	return w, m
}

// Replicas are alike if the first ones are, as many as are to be compared: a comparison of all agrees.
func TestFirstReplicasTell(t *testing.T) {
	alike, short := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawReplicas(t)
		p := wiring.Pipeline{Name: "test", Shape: shape(w), Order: orderOf(t, "1f1b", w), Optimizer: true, Brief: true, Folded: w.Replicas > 1}
		staged := w.Staged()
		staged.Fill(&p)
		g, err := p.Graph()
		require.NoError(t, err)
		costs, err := costmodel.StepCosts(m, staged, g)
		if err != nil {
			t.Skip("refused")
		}
		all := costs
		all.Period = 0
		require.Equal(t, g.Alike(all), g.Alike(costs))
		if 0 < costs.Period && costs.Period < w.Replicas {
			short++
			if g.Alike(costs) {
				alike++
			}
		}
	})
	require.Greater(t, short, 10)
	require.Greater(t, alike, 5)
	require.Greater(t, short, alike)
}
