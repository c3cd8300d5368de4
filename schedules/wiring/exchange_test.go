package wiring_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// Every pass of the stage with experts is cut at its all-to-alls, but for a W; gradient
// buckets leave where they are complete; experts are summed over the replicas that have
// the same ones.
func TestExchanges(t *testing.T) {
	p := ddp(t, 4, 1, 30, 30)
	p.Sync.Overlap, p.Sync.Experts = true, [][]bool{{false, true}}
	p.Exchanges = []wiring.Exchanges{{Forward: []int64{8, 16}, Backward: []int64{16, 16}, Leaves: []int{1, 2}}}
	p.ExpertSpan = 2
	g := ordertest.Graph(t, p)
	text := strings.Split(ordertest.Text(strings.Split(synchronised(g), "1 compute")[0]), "\n")
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0F0.1 0F0.2 0B0 0B0.1 0B0.2 AVERAGE.0 OPTIMIZER.0
		0 experts: 0ALL_TO_ALL0 0ALL_TO_ALL0.1 0ALL_TO_ALL0.2 0ALL_TO_ALL0.3
		0 gradients: 0ALL_REDUCE 0ALL_REDUCE`), strings.Join(text, "\n"))
	require.Equal(t, [][]int32{{0, 1, 2, 3}, {0, 1}, {2, 3}, {0, 2}, {1, 3}}, g.Groups)
	members, dimensions := map[string]string{}, map[string]bool{}
	for i, task := range g.Tasks() {
		if task.Kind.Collective() && task.Rank == 3 {
			members[task.String()+fmt.Sprint(task.Part)] = fmt.Sprint(g.Groups[task.Peer], " after ", g.Task(g.Deps(int32(i))[0]))
			dimensions[g.Work(&task)] = true
		}
	}
	require.Equal(t, map[string]string{
		"0ALL_TO_ALL00": "[2 3] after 0F0", "0ALL_TO_ALL0.11": "[2 3] after 0F0.1",
		"0ALL_TO_ALL0.22": "[2 3] after 0B0", "0ALL_TO_ALL0.33": "[2 3] after 0B0.1",
		"0ALL_REDUCE0": "[0 1 2 3] after 0B0.1", "0ALL_REDUCE1": "[1 3] after 0B0.2",
	}, members)
	require.Equal(t, map[string]bool{"expert_all_to_all": true, "data_all_reduce": true, "expert-data_all_reduce": true}, dimensions)
}

// Any pipeline with experts is well formed and runs; all that it adds takes no less time
// than its all-to-alls, which stand one after another on a rank.
func TestExchangesOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ordertest.Draw(t)
		stages := len(p.Boundaries) + 1
		p.Sync = wiring.Sync{Overlap: rapid.Bool().Draw(t, "overlap"), Sharded: rapid.Bool().Draw(t, "sharded")}
		p.Sync.Buckets = rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(0, 99), 0, 4), stages, stages).Draw(t, "buckets")
		p.Sync.Parameters = rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(0, 99), 1, 3), stages, stages).Draw(t, "parameters")
		p.Sync.EveryMicrobatch = p.Sync.Sharded && rapid.Bool().Draw(t, "every microbatch")
		ordertest.DrawExperts(t, &p)
		p.DelayWeights = rapid.Bool().Draw(t, "delayed")
		sameSize(t, p)
		g := ordertest.Graph(t, p)
		took := ordertest.Relax(t, g, func(t *graph.Task) time.Duration { return 1 }).End()
		exchanges := make([]time.Duration, g.Ranks())
		for _, task := range g.Tasks() {
			if task.Kind == graph.AllToAll || task.Kind.Compute() && task.Part == 0 {
				exchanges[task.Rank]++
			}
		}
		for _, least := range exchanges {
			require.GreaterOrEqual(t, took, least)
		}
	})
}

// What does not go together is refused.
func TestExchangesRefused(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(p *wiring.Pipeline)
	}{
		{"all-to-alls of 0 stages; there are 1", func(p *wiring.Pipeline) { p.Exchanges = []wiring.Exchanges{} }},
		{"experts over 3 replicas each; there are 4", func(p *wiring.Pipeline) { p.ExpertSpan = 3 }},
		{"go with equal replicas", func(p *wiring.Pipeline) { p.Shards, p.ExpertSpan = []int64{1, 1, 1, 2}, 2 }},
		{"stage 0: 2 all-to-alls forward and 0 backward", func(p *wiring.Pipeline) { p.Exchanges[0].Backward = nil }},
		{"stage 0: 2 gradient buckets, and parts after which 1 leave", func(p *wiring.Pipeline) { p.Exchanges[0].Leaves = []int{0} }},
		{"stage 0: a forward in 3 parts, but 2 of them say", func(p *wiring.Pipeline) {
			p.Sync.Sharded, p.Sync.Ahead, p.Exchanges[0].Awaits = true, [][]int64{{1}}, []int{0, 1}
		}},
	} {
		p := ddp(t, 4, 1, 30, 30)
		p.Sync.Overlap = true
		p.Exchanges = []wiring.Exchanges{{Forward: []int64{8, 16}, Backward: []int64{16, 16}, Leaves: []int{1, 2}}}
		c.change(&p)
		_, err := p.Graph()
		require.ErrorContains(t, err, c.want)
	}
}

// The parts of a pair alternate, the B's first. Where every part and every all-to-all takes
// as long, a pair of three parts each takes as long as they compute; a serial one waits for
// all four all-to-alls.
func TestExchangesOfPairs(t *testing.T) {
	o, err := order.ReadCSV(strings.NewReader("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"))
	require.NoError(t, err)
	for name, want := range map[string]struct {
		compute, experts string
		took             time.Duration
	}{
		"fused": {
			"0F0 0F0.1 0F0.2 0B0 0F1 0B0.1 0F1.1 0B0.2 0F1.2 0B1 0B1.1 0B1.2",
			"0ALL_TO_ALL0 0ALL_TO_ALL0.1 0ALL_TO_ALL0.2 0ALL_TO_ALL1 0ALL_TO_ALL0.3 0ALL_TO_ALL1.1 0ALL_TO_ALL1.2 0ALL_TO_ALL1.3",
			5 + 6 + 5,
		},
		"serial": {
			"0F0 0F0.1 0F0.2 0F1 0F1.1 0F1.2 0B0 0B0.1 0B0.2 0B1 0B1.1 0B1.2",
			"0ALL_TO_ALL0 0ALL_TO_ALL0.1 0ALL_TO_ALL1 0ALL_TO_ALL1.1 0ALL_TO_ALL0.2 0ALL_TO_ALL0.3 0ALL_TO_ALL1.2 0ALL_TO_ALL1.3",
			20,
		},
	} {
		p := wiring.Pipeline{Shape: graph.Shape{Ranks: 1, Microbatches: 2}, Order: o, Pairs: pairings[name]}
		p.Exchanges = []wiring.Exchanges{{Forward: []int64{1, 1}, Backward: []int64{1, 1}}}
		g := ordertest.Graph(t, p)
		require.Equal(t, ordertest.Text("0 compute: "+want.compute+"\n0 experts: "+want.experts), ordertest.Text(synchronised(g)), name)
		trace := ordertest.Relax(t, g, func(*graph.Task) time.Duration { return 1 })
		require.Equal(t, want.took, trace.End(), name)
		require.Equal(t, 2, graph.Summarize(trace).Ranks[0].PeakInFlight, name)
	}
}

// With weight gradients delayed, a W of every part runs beside what its I sends, and the
// message leaves before the last. Where I, W and all-to-alls take as long, nothing of a
// backward's waits.
func TestDelayedWeights(t *testing.T) {
	p := ddp(t, 2, 1, 30)
	p.Sync.Overlap, p.DelayWeights = true, true
	p.Exchanges = []wiring.Exchanges{{Forward: []int64{1, 1}, Backward: []int64{1, 1}, Leaves: []int{1}}}
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0F0.1 0F0.2 0I0 0W0 0I0.1 0W0.1 0I0.2 0W0.2 AVERAGE.0 OPTIMIZER.0
		0 experts: 0ALL_TO_ALL0 0ALL_TO_ALL0.1 0ALL_TO_ALL0.2 0ALL_TO_ALL0.3
		0 gradients: 0ALL_REDUCE`), strings.Split(synchronised(g), "1 compute")[0])
	for i, task := range g.Tasks() {
		if task.Kind == graph.AllReduce {
			require.Equal(t, "0W0.1", g.Task(g.Deps(int32(i))[0]).String())
		}
	}
	require.Equal(t, time.Duration(5+6+2), ordertest.Relax(t, g, func(*graph.Task) time.Duration { return 1 }).End())
}

// In any order of pairs, every action waits for what it needs, and every part for the
// all-to-all before it.
func TestExchangesOfAnyPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := schedules.Find(rapid.SampledFrom([]string{"dualpipe", "dualpipev"}).Draw(t, "schedule"))
		require.NoError(t, err)
		ranks := 2 * rapid.IntRange(1, 2).Draw(t, "half of the ranks")
		p, err := s.Pipeline(s.Sized(graph.Shape{Ranks: ranks, Microbatches: 2 * ranks * rapid.IntRange(1, 2).Draw(t, "rounds")}), nil)
		require.NoError(t, err)
		p.Pairs = rapid.SampledFrom([]wiring.Pairing{wiring.Fused, wiring.Serial, wiring.Overlap}).Draw(t, "pairs")
		ordertest.DrawExperts(t, &p)
		p.DelayWeights = rapid.Bool().Draw(t, "delayed")
		sameSize(t, p)
		g := ordertest.Graph(t, p)
		trace := ordertest.Relax(t, g, ordertest.Unit)
		ends := map[string]time.Duration{} // of parts, and of the all-to-alls after them
		key := func(task *graph.Task, part int) string {
			return fmt.Sprint(task.Kind, task.Stage, task.Microbatch, part)
		}
		for i := range int32(g.Len()) {
			task := new(g.Task(i))
			switch {
			case task.Kind == graph.AllToAll:
				before := g.Task(g.Deps(int32(i))[0])
				ends[key(&before, int(before.Part))+" sent"] = trace.Span(i).End
			case task.Kind.Compute():
				ends[key(task, int(task.Part))] = trace.Span(i).End
			}
		}
		for i := range int32(g.Len()) {
			task := new(g.Task(i))
			if !task.Kind.Compute() {
				continue
			}
			if e := p.Exchanges[task.Stage]; task.Part > 0 && task.Kind != graph.WeightGradient && len(e.Forward) > 0 {
				sent, ok := ends[key(task, int(task.Part)-1)+" sent"]
				require.True(t, ok)
				require.GreaterOrEqual(t, trace.Span(i).Start, sent)
			}
			if last, ok := ends[key(&graph.Task{Kind: graph.Forward, Stage: task.Stage, Microbatch: task.Microbatch}, len(p.Exchanges[task.Stage].Forward))]; task.Kind != graph.Forward {
				require.True(t, ok)
				require.GreaterOrEqual(t, trace.Span(i).Start, last)
			}
		}
	})
}

// Experts of a unit are gathered and scattered among the replicas that have the same ones, and the rest of it among
// all. The gradients of experts leave after the part that makes them.
func TestExchangesOfUnits(t *testing.T) {
	p := ddp(t, 4, 1)
	p.Sync = wiring.Sync{Overlap: true, Experts: [][]bool{{true, false}}, Units: []wiring.Unit{{Gather: []int64{80, 40}, Scatter: []int64{60, 20}, Share: 20}}}
	p.Exchanges = []wiring.Exchanges{{Forward: []int64{8, 16}, Backward: []int64{16, 16}, Leaves: []int{1, 2}}}
	p.ExpertSpan = 2
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0F0.1 0F0.2 0B0 0B0.1 0B0.2 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0ALL_GATHER0 0ALL_GATHER0.1 0ALL_GATHER0 0ALL_GATHER0.1 0REDUCE_SCATTER0 0REDUCE_SCATTER0.1
		0 experts: 0ALL_TO_ALL0 0ALL_TO_ALL0.1 0ALL_TO_ALL0.2 0ALL_TO_ALL0.3`), strings.Split(synchronised(g), "1 compute")[0])
	for i, task := range g.Tasks() {
		if task.Kind != graph.AllGather && task.Kind != graph.ReduceScatter {
			continue
		}
		r := task.Rank
		if want := []int32{0, 1, 2, 3}; task.Part == 0 {
			require.Equal(t, []int32{r % 2, r%2 + 2}, g.Groups[task.Peer])
		} else {
			require.Equal(t, want, g.Groups[task.Peer])
		}
		if task.Kind == graph.ReduceScatter {
			require.Equal(t, 1+task.Part, g.Task(g.Deps(i)[0]).Part, "the part that makes these gradients")
		}
	}
	for _, change := range []func(p *wiring.Pipeline){
		func(p *wiring.Pipeline) { p.Sync.ShardSpan = 2 }, func(p *wiring.Pipeline) { p.DelayWeights = true },
	} {
		refused := p
		change(&refused)
		_, err := refused.Graph()
		require.EqualError(t, err, "sharded experts on several devices go with shares among all replicas and whole passes")
	}
}
