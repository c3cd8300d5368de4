package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/link"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// mixture is a small mixture of experts on a device of a group.
func mixture(t tester, g group.Group) network.Network {
	t.Helper()
	n, err := models.Model{
		Family: "mixtral", Layers: 4, Hidden: 64, Heads: 4, FFNHidden: 96, Vocab: 64, SequenceLength: 32, Experts: 8, ExpertsPerToken: 2,
	}.On(g)
	require.NoError(t, err)
	return n
}

// Parts between all-to-alls add up to the whole pass, in time, launches, exchanges inside
// the rank and bytes, whatever is repeated, in whole backwards and in halves.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := rapid.SampledFrom([]group.Group{
			{Expert: 4}, {Expert: 8, EightBits: true}, {Devices: 2, Sequence: true, Expert: 4}, {Devices: 2, Sequence: true, Overlap: true, Expert: 2, ExpertTensor: 2},
		}).Draw(t, "group")
		m := machine()
		m.Tensor, m.Host = max(1, group.Devices), costmodel.HostTimes{Operation: 500, Task: 3000}
		w := workload(t, mixture(t, group), []int32{0, 1}, 2, 2, 1)
		w.Replicas = 8
		if rapid.Bool().Draw(t, "sharded") {
			w = sharded(w.Network, 8, 2, 1)
			w.Copied = true
		}
		w.Training = rapid.SampledFrom(recomputations()).Draw(t, "recompute")
		o := orderOf(t, "gpipe", w)
		if rapid.Bool().Draw(t, "halves") {
			o = splitOrders(o)["zb-h1"]
			w.Training.Split = rapid.SampledFrom([]string{training.SplitLayer, training.SplitStage}).Draw(t, "of every")
		}
		type key struct {
			kind            graph.Kind
			rank, stage, mb int32
		}
		sums := [2]map[key]graph.Cost{{}, {}}
		inner := [2]map[key]graph.Inner{{}, {}}
		for i, some := range []bool{false, true} {
			p := wiring.Pipeline{Name: "test", Shape: shape(w), Order: o, Optimizer: true}
			staged := w.Staged()
			staged.Fill(&p)
			if !some {
				p.Exchanges, p.Sync = nil, wiring.Sync{}
			}
			g, err := p.Graph()
			require.NoError(t, err)
			if some {
				require.NoError(t, staged.Check(g))
			}
			costs, err := costmodel.StepCosts(m, staged, g)
			require.NoError(t, err)
			parts := 0
			for j := range int32(g.Len()) {
				task := new(g.Task(j))
				if !task.Kind.Compute() {
					continue
				}
				c, k := costs.Task(task), key{task.Kind, task.Rank, task.Stage, task.Microbatch}
				sum := sums[i][k]
				sum.Busy, sum.Launch = sum.Busy+c.Busy, sum.Launch+c.Launch
				sum.BytesAtStart, sum.BytesAtEnd = sum.BytesAtStart+c.BytesAtStart, sum.BytesAtEnd+c.BytesAtEnd
				if sums[i][k] = sum; c.Inner != nil {
					inner[i][k] = inner[i][k].Plus(*c.Inner)
				}
				parts += int(min(1, task.Part))
			}
			require.Equal(t, some, parts > 0)
			if some || w.Zero < 3 { // nothing gathers otherwise what ZeRO 3 frees
				ledger(t, run(t, g, costs))
			}
		}
		require.Equal(t, sums[0], sums[1])
		require.Equal(t, inner[0], inner[1])
	})
}

// By hand: what leaves a node goes through its cards, one for a device at most, beside what
// stays in it.
func TestAllToAllTime(t *testing.T) {
	m := machine()
	m.Network = link.Link{Name: "test", Bandwidth: 1e9, Latency: 5000, Call: 7000}
	took := func(group group.Group, perNode, nics int) time.Duration {
		m.Tensor, m.DevicesPerNode, m.NICsPerNode = max(1, group.Devices), perNode, nics
		w := workload(t, mixture(t, group), []int32{0}, 1)
		w.Replicas = 8 / m.Tensor
		p, staged := wiring.Pipeline{Name: "test", Shape: shape(w), Order: orderOf(t, "ddp", w)}, w.Staged()
		staged.Fill(&p)
		g, err := p.Graph()
		require.NoError(t, err)
		costs := costsOf(t, w, m, g)
		for i := range int32(g.Len()) {
			if g.Task(i).Kind == graph.AllToAll {
				return costs.Task(new(g.Task(i))).Busy
			}
		}
		return 0
	}
	const whole = 32 * 2 * 64 * 4 // bytes of a device's rows
	const share = 0.69            // that NCCL reaches of the network
	in, out := func(n float64) time.Duration { return time.Duration(n*whole/10 + 0.5) }, func(n float64) time.Duration { return time.Duration(n*whole/share + 0.5) }
	require.Equal(t, 2000+in(7./8), took(group.Group{Expert: 8}, 0, 0))
	require.Equal(t, 2000+in(7./8), took(group.Group{Expert: 8}, 8, 1))
	require.Equal(t, 12000+out(4./8), took(group.Group{Expert: 8}, 4, 4))
	require.Equal(t, 12000+out(4./8*2), took(group.Group{Expert: 8}, 4, 2))
	require.Equal(t, 12000+out(6./8), took(group.Group{Expert: 8}, 2, 4), "no device has two cards")
	require.Equal(t, 2000+in(3./4), took(group.Group{Expert: 4}, 4, 4))
	require.Equal(t, 12000+out(4./8/2), took(group.Group{Devices: 2, Sequence: true, Expert: 8}, 4, 4))
	require.Equal(t, 12000+out(2./4/2), took(group.Group{Devices: 2, Sequence: true, Expert: 4, ExpertTensor: 2}, 4, 4))
	require.Equal(t, 2000+in(1./2/2), took(group.Group{Devices: 2, Sequence: true, Expert: 2}, 4, 4), "within a rank")
}

// A token that is sent to every node once crosses the network as often as it has nodes.
func TestDeepEPTime(t *testing.T) {
	m := machine()
	m.Network, m.DevicesPerNode, m.NICsPerNode = link.Link{Name: "test", Bandwidth: 1e6}, 4, 4
	took := func(deepep bool) time.Duration {
		w := workload(t, mixture(t, group.Group{Expert: 8, DeepEP: deepep}), []int32{0}, 1)
		w.Replicas = 8
		p, staged := wiring.Pipeline{Name: "test", Shape: shape(w), Order: orderOf(t, "ddp", w)}, w.Staged()
		staged.Fill(&p)
		g, err := p.Graph()
		require.NoError(t, err)
		for i := range int32(g.Len()) {
			if g.Task(i).Kind == graph.AllToAll {
				return costsOf(t, w, m, g).Task(new(g.Task(i))).Busy
			}
		}
		return 0
	}
	// Two experts of eight are on one node of two with odds of 3/7, of which the other half is
	// not the token's own.
	const tokens = 32 * 64 * 4
	require.InDelta(t, 2+tokens*2*4/8/0.69, took(false).Microseconds(), 1)
	require.InDelta(t, 2+tokens*(2-3./7)/2/0.87, took(true).Microseconds(), 1)
}

// With weight gradients delayed the halves of the parts of a backward add up to the halves
// of the whole, in time and launches, and the peak is that of whole parts.
func TestDelayedWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machine()
		m.Host = costmodel.HostTimes{Operation: 500, Task: 3000}
		w := workload(t, mixture(t, group.Group{Expert: 4}), []int32{0}, 2, 2, 1)
		w.Replicas = 8
		w.Training = rapid.SampledFrom(recomputations()).Draw(t, "recompute")
		plain := orderOf(t, "gpipe", w)
		sums := func(p wiring.Pipeline, exchanges bool) (times map[graph.Kind]graph.Cost, peak int64) {
			p.Name, p.Shape = "test", shape(w)
			staged := w.Staged()
			staged.Fill(&p)
			if !exchanges {
				p.Exchanges, p.Sync = nil, wiring.Sync{}
			}
			g, err := p.Graph()
			require.NoError(t, err)
			costs, err := costmodel.StepCosts(m, staged, g)
			require.NoError(t, err)
			times = map[graph.Kind]graph.Cost{}
			for i := range int32(g.Len()) {
				if c, k := costs.Task(new(g.Task(i))), g.Task(i).Kind; k.Compute() {
					sum := times[k]
					sum.Busy, sum.Launch = sum.Busy+c.Busy, sum.Launch+c.Launch
					times[k] = sum
				}
			}
			trace := run(t, g, costs)
			ledger(t, trace)
			return times, graph.Summarize(trace).Ranks[0].PeakMemory
		}
		halves, _ := sums(wiring.Pipeline{Order: splitOrders(plain)["zb-h1"]}, false)
		_, most := sums(wiring.Pipeline{Order: plain}, true)
		delayed, peak := sums(wiring.Pipeline{Order: plain, DelayWeights: true}, true)
		require.Equal(t, halves, delayed)
		require.Equal(t, most, peak)
	})
}
