package sim_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// drawAny draws a pipeline that can be wired.
func drawAny(t *rapid.T) (wiring.Pipeline, *graph.Graph) {
	p := ordertest.DrawAny(t)
	g, err := p.Graph()
	if err != nil {
		t.Skip("what does not go together")
	}
	require.NoError(t, g.Validate())
	return p, g
}

// drawClassPrices draws a duration and memory for every kind of task, other ones by rank,
// stage, part and size; links are shared by several ranks, and all replicas are the same
// if they are to be.
func drawClassPrices(t *rapid.T, p wiring.Pipeline, alike bool) graph.Costs {
	busy := rapid.SliceOfN(rapid.IntRange(0, 4), int(graph.Kinds), -1).Draw(t, "busy")
	bytes := rapid.SliceOfN(rapid.Int64Range(-3, 5), 64, 64).Draw(t, "bytes")
	latency, links := rapid.IntRange(0, 3).Draw(t, "latency"), rapid.IntRange(0, 2).Draw(t, "links")
	spread, perLink := rapid.IntRange(0, 2).Draw(t, "spread"), rapid.Int32Range(1, 4).Draw(t, "ranks of a link")
	remembers := rapid.Bool().Draw(t, "remembers")
	host := drawThreads(t, p)
	return graph.Costs{Host: host, Task: func(task *graph.Task) graph.Cost {
		c := graph.Cost{Busy: time.Duration(busy[task.Kind])}
		rank, key := task.Rank, 0
		if alike {
			rank %= int32(p.Shape.Ranks)
			perLink = 1
		}
		switch {
		case task.Kind.Compute():
			size := int64(1)
			if p.Shards != nil {
				size = p.Shards[int(rank)/p.Shape.Ranks]
			} else if p.Samples != nil {
				size = p.Samples[task.Microbatch]
			}
			key = int(3*task.Stage) + int(rank) + int(task.Part) + int(size)
			c.Busy += time.Duration(spread * key % 4)
			if host != nil {
				c.Launch, c.LaunchLead = time.Duration(key%3), time.Duration(key%4)
			}
		case task.Kind.Message():
			c.Delay, key = time.Duration(latency), int(task.Stage)
			if links > 0 {
				c.Busy, c.Link = c.Busy+time.Duration(task.Bytes%3), task.Rank/perLink+1
			}
		default:
			key = int(task.Bytes)
		}
		if key += 7 * int(task.Kind); remembers {
			c.BytesAtStart, c.BytesAtEnd = bytes[key%64], bytes[(key+31)%64]
		}
		return c
	}}
}

// drawThreads draws threads that launch tasks, one for every rank or a few for all, or none.
func drawThreads(t *rapid.T, p wiring.Pipeline) *graph.Host {
	if rapid.Bool().Draw(t, "launched for nothing") {
		return nil
	}
	h, ranks := &graph.Host{Queue: rapid.IntRange(0, 3).Draw(t, "queue"), Waits: rapid.Bool().Draw(t, "waits")}, p.Shape.Ranks*max(1, p.Shape.Replicas)
	switch rapid.IntRange(0, 2).Draw(t, "threads") {
	case 1:
		h.Thread = graph.InOrder(ranks).First
	case 2:
		h.Thread = rapid.SliceOfN(rapid.Int32Range(0, 2), ranks, ranks).Draw(t, "thread")
	}
	return h
}

// The engine finds what the plain one does: every span, to the nanosecond, what it is due to, when
// tasks were ready, and all changes of memory.
func TestEngineIsPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, g := drawAny(t)
		requirePlain(t, g, drawClassPrices(t, p, false))
	})
}

// So it does of graphs that are no pipelines: with links for all kinds of tasks, or with hosts.
func TestEngineIsPlainOnAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		launched, links := rapid.Bool().Draw(t, "launched"), int32(2)
		if launched {
			links = 0
		}
		r := drawGraph(t, links, rapid.IntRange(0, 3).Draw(t, "cycles") == 0)
		for i := range r.cost {
			r.cost[i].BytesAtStart, r.cost[i].BytesAtEnd = rapid.Int64Range(-2, 3).Draw(t, "start"), rapid.Int64Range(-2, 3).Draw(t, "end")
		}
		costs := r.costs()
		if launched {
			costs = launching(costs, 2, 1, drawHost(t, r.Graph))
		}
		requirePlain(t, r.Graph, costs)
	})
}

func requirePlain(t *rapid.T, g *graph.Graph, costs graph.Costs) {
	want, blocked := plainly(g, costs)
	trace, err := sim.Run(g, costs)
	if blocked != nil {
		require.ErrorAs(t, err, new(*sim.DeadlockError))
		return
	}
	require.NoError(t, err)
	for i := range int32(g.Len()) {
		require.Equal(t, want.trace.Span(i), trace.Span(i), g.Describe(i))
		require.Equal(t, want.cause[i], trace.CauseOf(i), g.Describe(i))
		if want.trace.Ready != nil {
			require.Equal(t, want.trace.Ready[i], trace.ReadyAt(i), g.Describe(i))
		}
	}
	require.Equal(t, want.path(), sim.CriticalPath(trace))
	require.Equal(t, byRank(want.trace.Memory), byRank(ordertest.Memory(trace)))
	require.Equal(t, graph.Summarize(want.trace), graph.Summarize(trace))
}

// byRank sorts changes of memory by rank, each as they come.
func byRank(events []graph.MemoryEvent) []graph.MemoryEvent {
	slices.SortStableFunc(events, func(a, b graph.MemoryEvent) int { return cmp.Compare(a.Rank, b.Rank) })
	return events
}

// A brief graph has the same tasks, but for their names, and all follows from it: whether it has
// the tasks of all replicas, or of the first to stand for all.
func TestBrief(t *testing.T) {
	var builder wiring.Builder
	var engine sim.Engine
	folded := 0
	rapid.Check(t, func(t *rapid.T) {
		p, g := drawAny(t)
		costs := drawClassPrices(t, p, rapid.Bool().Draw(t, "alike"))
		trace, err := sim.Run(g, costs)
		if err != nil {
			t.Skip("blocked")
		}
		p.Brief = true
		for _, p.Folded = range []bool{false, p.Foldable()} {
			brief, err := builder.Graph(p)
			require.NoError(t, err)
			require.Equal(t, g.Len(), brief.Size())
			if p.Folded && !brief.Alike(costs) {
				continue
			}
			if p.Folded {
				folded++
			}
			engine.NoCauses = rapid.Bool().Draw(t, "without causes")
			short, err := engine.Run(brief, costs)
			require.NoError(t, err)
			for i := range int32(brief.Len()) {
				like := *brief.Class(i)
				like.Microbatch = g.Task(i).Microbatch
				require.Equal(t, g.Task(i), like)
				require.Equal(t, g.Deps(i), brief.Deps(i))
				require.Equal(t, trace.Span(i), short.Span(i))
			}
			requireStatistics(t, trace, short)
			if !engine.NoCauses {
				require.Equal(t, spansOf(trace, sim.CriticalPath(trace)), spansOf(short, sim.CriticalPath(short)))
			}
		}
	})
	require.Greater(t, folded, 5)
}

func spansOf(trace *graph.Trace, path []int32) (list []graph.Span) {
	for _, i := range path {
		list = append(list, trace.Span(i))
	}
	return list
}

// requireStatistics requires a trace to be summed up as another is, and its peaks to be what tasks
// have taken and not yet given back.
func requireStatistics(t *rapid.T, want, have *graph.Trace) {
	x := graph.Statistics{Peaks: true}
	var all, extremes graph.Summary
	x.Summarize(have, &all)
	require.Equal(t, graph.Summarize(want), all)
	x.Extremes(have, &extremes)
	require.Equal(t, all.StepTime, extremes.StepTime)
	for r := range all.Ranks {
		level := all.Ranks[r].PersistentMemory
		x.AtPeak(r, func(class int32, starts, ends int64) {
			level += have.Prices[class].AtStart*starts + have.Prices[class].AtEnd*ends
		})
		require.Equal(t, all.Ranks[r].PeakMemory, level)
		require.Equal(t, level, extremes.Ranks[r].PeakMemory)
	}
}
