package wiring_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/golden"
	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// fsdp is three stages on every rank, the middle one without parameters.
func fsdp(t rapid.TB, replicas, microbatches int, overlap bool) wiring.Pipeline {
	p := ordertest.Pipeline(t, "ddp", 1, microbatches, 0, 0, 0)
	p.Shape.Replicas, p.Optimizer = replicas, true
	p.Sync = wiring.Sync{Overlap: overlap, Units: []wiring.Unit{
		{Gather: []int64{40}, Scatter: []int64{20}, Share: 10}, {}, {Gather: []int64{80}, Scatter: []int64{60}, Share: 30},
	}}
	return p
}

func TestUnits(t *testing.T) {
	g := ordertest.Graph(t, fsdp(t, 2, 1, true))
	streams := strings.Split(synchronised(g), "1 compute")[0]
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 1F0 2F0 2B0 1B0 0B0 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0ALL_GATHER0 2ALL_GATHER0 2ALL_GATHER0 0ALL_GATHER0 2REDUCE_SCATTER0 0REDUCE_SCATTER0`), streams)
	require.Equal(t, [][]int32{{0, 1}}, g.Groups, "one communicator")
	golden.Equal(t, "units_overlap_graph.golden", ordertest.Dump(g))
	for _, task := range g.Tasks() {
		switch task.Kind {
		case graph.AllGather:
			require.Equal(t, []int64{40, 0, 80}[task.Stage], task.Bytes)
		case graph.ReduceScatter:
			require.Equal(t, []int64{20, 0, 60}[task.Stage], task.Bytes)
		case graph.Average:
			require.EqualValues(t, 40, task.Bytes, "of shares")
		}
	}
	golden.Equal(t, "units_graph.golden", ordertest.Dump(ordertest.Graph(t, fsdp(t, 2, 1, false))))
}

// In groups of two replicas, each group gathers and scatters by itself, and every scatter is followed by a sum of
// shares with the replica at the same place of the other group, beside the next scatter.
func TestUnitsInGroups(t *testing.T) {
	p := fsdp(t, 4, 1, true)
	p.Sync.ShardSpan = 2
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 1F0 2F0 2B0 1B0 0B0 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0ALL_GATHER0 2ALL_GATHER0 2ALL_GATHER0 0ALL_GATHER0 2REDUCE_SCATTER0 0REDUCE_SCATTER0
		0 sums of shares: 2ALL_REDUCE0 0ALL_REDUCE0`), strings.Split(synchronised(g), "1 compute")[0])
	end, scatter := int32(graph.None), map[int32]int32{}
	for i, task := range g.Tasks() {
		group := g.Groups[max(0, task.Peer)]
		switch r := task.Rank; task.Kind {
		case graph.AllGather, graph.ReduceScatter:
			require.Equal(t, []int32{r / 2 * 2, r/2*2 + 1}, group)
			scatter[r] = i
		case graph.AllReduce:
			require.Equal(t, []int32{r % 2, r%2 + 2}, group)
			require.EqualValues(t, []int64{10, 0, 30}[task.Stage], task.Bytes, "a share")
			require.Contains(t, g.Deps(i), scatter[r])
			end = i
		case graph.Average:
			require.Contains(t, g.Deps(i), end, "the last sum")
		}
	}
}

// One replica shards nothing, and a rank without parameters sums nothing.
func TestUnitsOfOneReplica(t *testing.T) {
	require.Equal(t, "0 compute: 0F0 1F0 2F0 2B0 1B0 0B0 OPTIMIZER.0\n", synchronised(ordertest.Graph(t, fsdp(t, 1, 1, true))))
	p := fsdp(t, 2, 1, true)
	p.Sync.Units = make([]wiring.Unit, 3)
	require.NotContains(t, synchronised(ordertest.Graph(t, p)), "GATHER")
	p.Sync.Units = p.Sync.Units[:2]
	_, err := p.Graph()
	require.EqualError(t, err, "sharded units for 2 stages; there are 3")
}

// drawUnits shards a pipeline of any schedule, some backwards in halves.
func drawUnits(t *rapid.T) wiring.Pipeline {
	p := ordertest.Draw(t)
	p.Shape.Replicas = rapid.IntRange(2, 4).Draw(t, "sharding replicas")
	if p.Shape.Replicas == 4 {
		p.Sync.ShardSpan = 2
	}
	p.Sync.Overlap = rapid.Bool().Draw(t, "overlap")
	p.Sync.Units = make([]wiring.Unit, len(p.Boundaries)+1)
	for s := range p.Sync.Units {
		if n := rapid.Int64Range(0, 3).Draw(t, "unit"); n > 0 {
			parts := rapid.IntRange(1, 3).Draw(t, "parts")
			p.Sync.Units[s] = wiring.Unit{Gather: slices.Repeat([]int64{12 * n}, parts), Scatter: slices.Repeat([]int64{6 * n}, parts), Share: 6 * n / int64(p.Shape.Replicas)}
		}
	}
	return p
}

// drawTimes draws a duration by kind and stage.
func drawTimes(t *rapid.T) func(*graph.Task) time.Duration {
	times := rapid.SliceOfN(rapid.IntRange(0, 9), int(graph.Kinds), int(graph.Kinds)).Draw(t, "times")
	spread := rapid.IntRange(0, 5).Draw(t, "spread")
	return func(task *graph.Task) time.Duration {
		return time.Duration(times[task.Kind] + spread*int(task.Stage+1)%4)
	}
}

// held is the most spans that hold something at one instant; spans of no
// length hold nothing.
func held(spans []graph.Span) int {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	for _, s := range spans {
		if s.End > s.Start {
			changes = append(changes, change{s.Start, 1}, change{s.End, -1})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	level, most := 0, 0
	for _, c := range changes {
		level += c.by
		most = max(most, level)
	}
	return most
}

// Whatever the times, a use finds its unit gathered, and nothing else is. No more than two units
// are whole at once, and two units' gradients, and one collective runs; without overlap it is one, and
// no two tasks of a rank run beside each other but for messages.
func TestUnitsAtHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawUnits(t)
		if p.Sync.ShardSpan == 0 && rapid.Bool().Draw(t, "mixture") {
			ordertest.DrawExperts(t, &p)
		}
		g := ordertest.Graph(t, p)
		trace := ordertest.Relax(t, g, drawTimes(t))
		most := 1
		if p.Sync.Overlap {
			most = 2
		}
		for r := range int32(g.Ranks()) {
			var whole, gradients, all, collectives, sums []graph.Span
			start := map[graph.Task]time.Duration{}   // of backwards, by what they are for
			gathered := map[graph.Task][]graph.Span{} // gathers that have not been used, by what they are for
			for i, task := range g.Tasks() {
				span, use := trace.Span(i), graph.Task{Stage: task.Stage, Microbatch: task.Microbatch}
				if task.Rank != r || task.Kind.Message() {
					continue
				}
				switch all = append(all, span); {
				case task.Kind == graph.AllReduce:
					sums = append(sums, span)
				case task.Kind == graph.AllToAll:
					continue
				case task.Kind.Collective():
					collectives = append(collectives, span)
				}
				unit := task.Stage != graph.None && p.Sync.Units[task.Stage].Gather != nil
				last := unit && int(task.Part) == len(p.Sync.Units[task.Stage].Gather)-1
				makes := task.Kind == graph.Backward || task.Kind == graph.WeightGradient
				switch {
				case task.Kind == graph.AllGather:
					use.Kind = graph.AllGather
					if task.Part == 0 {
						gathered[use] = append(gathered[use], span)
					}
					gathered[use][len(gathered[use])-1].End = span.End
				case task.Kind == graph.ReduceScatter && last:
					use.Kind = graph.ReduceScatter
					gradients = append(gradients, graph.Span{Start: start[use], End: span.End})
				case unit && makes && task.Part == 0:
					use.Kind = graph.ReduceScatter
					start[use] = span.Start
				}
				if unit && task.Kind.Compute() && task.Kind != graph.WeightGradient && task.Part > 0 {
					whole[len(whole)-1].End = span.End // after all-to-alls
				} else if unit && task.Kind.Compute() && task.Kind != graph.WeightGradient {
					use.Kind = graph.AllGather
					require.NotEmpty(t, gathered[use], "%s was not gathered", task)
					require.GreaterOrEqual(t, span.Start, gathered[use][0].End, "%s waits for its gather", task)
					whole = append(whole, graph.Span{Start: gathered[use][0].Start, End: span.End})
					gathered[use] = gathered[use][1:]
				}
			}
			gathers := 0
			for _, task := range g.Tasks() {
				if task.Rank == r && task.Kind == graph.AllGather && task.Part == 0 {
					gathers++
				}
			}
			require.Len(t, whole, gathers, "each gather has a use, a weight gradient none")
			require.LessOrEqual(t, held(whole), most)
			require.LessOrEqual(t, held(gradients), most)
			require.LessOrEqual(t, held(collectives), 1, "of one communicator")
			require.LessOrEqual(t, held(sums), 1, "of one communicator")
			if !p.Sync.Overlap {
				require.LessOrEqual(t, held(all), 1)
			}
		}
	})
}

// L equal layers hide all collectives behind compute that takes longer, but for the first gather and
// the last sum of every microbatch: PyTorch gathers for a forward when that begins. Gathers that take longer than the forwards
// follow each other without a gap, and are all there is to be seen.
func TestUnitsTime(t *testing.T) {
	end := func(layers, microbatches int, times map[graph.Kind]time.Duration) time.Duration {
		p := ordertest.Pipeline(t, "ddp", 1, microbatches, make([]int32, layers)...)
		p.Shape.Replicas, p.Sync.Overlap = 2, true
		for range layers {
			p.Sync.Units = append(p.Sync.Units, wiring.Unit{Gather: []int64{2}, Scatter: []int64{2}, Share: 1})
		}
		return ordertest.Relax(t, ordertest.Graph(t, p), func(task *graph.Task) time.Duration { return times[task.Kind] }).End()
	}
	for layers := 1; layers <= 5; layers++ {
		for m := 1; m <= 3; m++ {
			got := end(layers, m, map[graph.Kind]time.Duration{
				graph.Forward: 10, graph.Backward: 20, graph.AllGather: 4, graph.ReduceScatter: 7,
			})
			require.EqualValues(t, m*(4+layers*(10+20)+7), got, "%d layers, %d microbatches", layers, m)
		}
		got := end(layers, 1, map[graph.Kind]time.Duration{graph.Forward: 10, graph.AllGather: 30})
		require.EqualValues(t, 30*2*layers, got, "%d layers", layers)
	}
}

// A unit whose tensors travel one by one has a task for each, in order, before its use
// and after its backward: as many bytes as in one.
func TestUnitsTensorByTensor(t *testing.T) {
	p := fsdp(t, 2, 1, true)
	p.Sync.Units[2] = wiring.Unit{Gather: []int64{50, 30}, Scatter: []int64{40, 20}, Share: 30}
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 1F0 2F0 2B0 1B0 0B0 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0ALL_GATHER0 2ALL_GATHER0 2ALL_GATHER0.1 2ALL_GATHER0 2ALL_GATHER0.1 0ALL_GATHER0 2REDUCE_SCATTER0 2REDUCE_SCATTER0.1 0REDUCE_SCATTER0`), strings.Split(synchronised(g), "1 compute")[0])
	sent := func(g *graph.Graph) int64 {
		return graph.Summarize(ordertest.Relax(t, g, ordertest.Unit)).Ranks[0].SentBytes
	}
	require.Equal(t, sent(ordertest.Graph(t, fsdp(t, 2, 1, true))), sent(g))
}

// Each microbatch gathers twice and scatters once: 3(W−1)/W of the parameters,
// and 4(W−1)/W where the scatter is an all-reduce.
func TestUnitsSend(t *testing.T) {
	for _, w := range []int64{2, 4} {
		for _, m := range []int64{1, 3} {
			for _, gloo := range []bool{false, true} {
				p := ordertest.Pipeline(t, "ddp", 1, int(m), 0, 0)
				p.Shape.Replicas = int(w)
				p.Sync = wiring.Sync{Units: []wiring.Unit{{Gather: []int64{80}, Scatter: []int64{80}, Share: 80 / w}, {Gather: []int64{16}, Scatter: []int64{16}, Share: 16 / w}}, NoReduceScatter: gloo}
				g := ordertest.Graph(t, p)
				want := 3 * m * 96 * (w - 1) / w
				if gloo {
					want = 4 * m * 96 * (w - 1) / w
				}
				for _, rank := range graph.Summarize(ordertest.Relax(t, g, ordertest.Unit)).Ranks {
					require.Equal(t, want, rank.SentBytes)
				}
			}
		}
	}
}

// Without a reduce-scatter the graph is the same but for the kind of the sums,
// at every ZeRO stage.
func TestNoReduceScatter(t *testing.T) {
	zero1 := ddp(t, 3, 2, 30, 20)
	zero1.Sync.Sharded, zero1.Sync.Parameters = true, [][]int64{{40}}
	zero2 := zero1
	zero2.Sync.EveryMicrobatch = true
	for _, p := range []wiring.Pipeline{zero1, zero2, fsdp(t, 3, 2, true), fsdp(t, 3, 2, false)} {
		want := ordertest.Graph(t, p)
		p.Sync.NoReduceScatter = true
		got := ordertest.Graph(t, p)
		require.NotContains(t, ordertest.Dump(got), "SCATTER")
		require.Equal(t, strings.NewReplacer("REDUCE_SCATTER", "ALL_REDUCE", "reduce-scatter", "all-reduce").Replace(ordertest.Dump(want)), ordertest.Dump(got))
		for i := range int32(want.Len()) {
			require.Equal(t, want.Task(i).Bytes, got.Task(i).Bytes)
		}
	}
	zero0 := ddp(t, 3, 2, 30, 20)
	want := ordertest.Dump(ordertest.Graph(t, zero0))
	zero0.Sync.NoReduceScatter = true
	require.Equal(t, want, ordertest.Dump(ordertest.Graph(t, zero0)))
}
