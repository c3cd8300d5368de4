package costmodel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/link"
	"psim/costmodel/memory"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// inParts is a small Llama on a device of a group that cuts sequences, and the machine.
func inParts(t tester, g group.Group) (network.Network, costmodel.Machine) {
	t.Helper()
	n, err := models.Model{Family: "llama", Layers: 4, Hidden: 64, Heads: 8, KVHeads: 8, FFNHidden: 64, Vocab: 64, SequenceLength: 256, Attention: models.AttentionFlash}.On(g)
	require.NoError(t, err)
	m := machine()
	m.Tensor, m.Context = g.Devices, g.Context
	return n, m
}

// Keys and values are on their way while a block of attention is computed: the step to the
// next takes the longer of both.
func TestRing(t *testing.T) {
	const samples = 3
	for _, c := range []int64{2, 4} {
		for _, bandwidth := range []units.Rate{1e8, 1e9, 1e12} {
			n, m := inParts(t, group.Group{Context: int(c)})
			m.Link.Bandwidth = bandwidth
			compute, err := m.Compute(training.Options{})
			require.NoError(t, err)
			ops := n.Layers[1].Ops
			o := ops[slices.IndexFunc(ops, func(o network.Op) bool { return o.Class == network.Attention })]
			alone := o
			alone.Passed = 0
			part := 256 / c * 2 * 64 * 4 * samples // bytes of keys and values
			hop := func(parts int64) time.Duration { return m.Link.Transfer(parts*part) + time.Duration(m.Link.Latency) }
			for p, twice := range map[network.Pass]int64{network.Forward: 0, network.InputGradient: c - 2} {
				computing := compute.Op(alone, p, samples)
				block, once := computing/time.Duration(c), int64(2)
				if p == network.Forward {
					once = c - 1
				}
				want := computing + time.Duration(once)*max(0, hop(1)-block) + time.Duration(twice)*max(0, hop(2)-block)
				require.Equal(t, want, compute.Op(o, p, samples), "%s over %d at %g B/s", p, c, float64(bandwidth))
			}
		}
	}
}

// drawParts draws a workload whose sequences are cut, over replicas.
func drawParts(t *rapid.T) (stages.Workload, costmodel.Machine, group.Group) {
	g := group.Group{
		Devices: rapid.SampledFrom([]int{1, 2}).Draw(t, "tensor"), Context: rapid.SampledFrom([]int{2, 4}).Draw(t, "context"),
		Method: rapid.SampledFrom([]string{group.ContextRing, group.ContextGather, group.ContextUlysses}).Draw(t, "method"),
	}
	n, m := inParts(t, g)
	m.DevicesPerNode, m.NICsPerNode = rapid.SampledFrom([]int{0, 4, 8}).Draw(t, "devices_per_node"), rapid.IntRange(1, 8).Draw(t, "nics")
	m.Network = link.Link{Name: "network", Bandwidth: 1e9, Latency: 5000}
	w := workload(t, n, []int32{0}, 2, 2)
	w.Replicas, w.Context, w.Zero = rapid.IntRange(1, 3).Draw(t, "replicas"), g.Context, rapid.IntRange(0, 2).Draw(t, "zero")
	w = synced(w, 20_000, rapid.Bool().Draw(t, "overlap"))
	w.Training.Recompute = rapid.SampledFrom([]string{"none", "core_attn", "full"}).Draw(t, "recompute")
	return w, m, g
}

// Devices with parts of the same sequences share gradients and the optimizer's state as so
// many replicas on the same devices do, in bytes and in time.
func TestPartsShareAsReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m, g := drawParts(t)
		parts := graphOf(t, w, orderOf(t, "ddp", w))
		g.Context = 1
		whole, on := inParts(t, g)
		on.DevicesPerNode, on.NICsPerNode, on.Network = m.DevicesPerNode, m.NICsPerNode, m.Network
		as := w
		as.Network, as.Replicas, as.Context = whole, w.Replicas*w.Context, 1
		replicas := graphOf(t, as, orderOf(t, "ddp", as))
		require.Equal(t, memory.Persistent(as.Staged(), as.Replicas)[0], memory.Persistent(w.Staged(), w.Replicas)[0])
		sums := func(w stages.Workload, m costmodel.Machine, g *graph.Graph) (list []graph.Cost, sent []int64) {
			costs, err := costmodel.StepCosts(m, w.Staged(), g)
			require.NoError(t, err)
			for i := range int32(g.Len()) {
				if task := new(g.Task(i)); task.Rank == 0 && (task.Kind.Collective() || task.Kind == graph.Average || task.Kind == graph.Optimizer) {
					list, sent = append(list, costs.Task(task)), append(sent, g.SentBytes(task))
				}
			}
			return list, sent
		}
		want, wantSent := sums(as, on, replicas)
		got, gotSent := sums(w, m, parts)
		require.Equal(t, want, got)
		require.Equal(t, wantSent, gotSent)
	})
}

// The parts of every rank add up to the step, those of every task to its time, and the
// ledger to zero; links without cost leave no communication.
func TestContextParallel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m, _ := drawParts(t)
		g := graphOf(t, w, orderOf(t, "ddp", w))
		trace := simulate(t, w, m, g)
		ledger(t, trace)
		s := graph.Summarize(trace)
		for _, r := range s.Ranks {
			require.Equal(t, s.StepTime, r.Compute+r.ExposedCommunication+r.Optimizer+r.Idle)
			require.GreaterOrEqual(t, r.Communication, r.ExposedCommunication)
			require.Positive(t, r.SentBytes)
		}
		made, err := costmodel.MadeOf(m, w.Staged(), g.Ranks())
		require.NoError(t, err)
		for i := range int32(g.Len()) {
			task := new(g.Task(i))
			if !task.Kind.Compute() || task.Part > 0 || w.Overlap && task.Kind != graph.Forward {
				continue
			}
			var sum time.Duration
			for _, share := range made(task) {
				sum += share.Time
			}
			require.Equal(t, trace.Span(i).Duration(), sum)
		}
		m.Link, m.Network = link.Link{Bandwidth: 1e30}, link.Link{Bandwidth: 1e30}
		free := graph.Summarize(simulate(t, w, m, g))
		require.LessOrEqual(t, free.StepTime, s.StepTime)
		for _, r := range free.Ranks {
			require.LessOrEqual(t, r.ExposedCommunication, s.Ranks[0].ExposedCommunication)
		}
	})
}

// What goes round leaves a node where the parts are on several: tensor-parallel groups
// share its cards. By hand, for four parts of two devices on nodes of four.
func TestContextOverNodes(t *testing.T) {
	n, m := inParts(t, group.Group{Devices: 2, Context: 4})
	m.Network, m.Link.Bandwidth = link.Link{Bandwidth: 4e6}, 1e12
	m.DevicesPerNode, m.NICsPerNode = 4, 1
	w := workload(t, n, []int32{0}, 1)
	w.Context = 4
	exchanged := func() time.Duration {
		trace := simulate(t, w, m, graphOf(t, w, orderOf(t, "ddp", w)))
		return trace.Inner(0).Context.Communication
	}
	const part = 256 / 4 * 2 * 64 / 2 * 4                                                   // bytes of keys and values of one device
	require.Equal(t, 4*3*units.Seconds(part/2e6), exchanged(), "blocks, hops, half a card") // of the forward
	m.NICsPerNode = 2
	require.Equal(t, 4*3*units.Seconds(part/4e6), exchanged())
	m.DevicesPerNode = 8
	inside := units.Seconds(part/1e12) + 2000
	require.Equal(t, 4*3*inside, exchanged())
}
