package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// drawPackable draws a small pipeline that can be packed: any order of the catalog, over
// any placement, with messages of several sizes, and all ways to sum gradients.
func drawPackable(t *rapid.T) wiring.Pipeline {
	p := ordertest.Draw(t)
	if rapid.Bool().Draw(t, "as the catalog has it") {
		s := rapid.SampledFrom(schedules.Catalog()).Filter(func(s schedules.Schedule) bool {
			return !s.SerialBackward && !s.Stashing
		}).Draw(t, "other schedule")
		replicas := p.Shape.Replicas
		shape := rapid.SampledFrom(smallShapes(s)).Draw(t, "other shape")
		if shape.Replicas = replicas; s.Check(shape) != nil {
			shape.Replicas = 1
		}
		var err error
		p, err = s.Pipeline(shape, nil)
		require.NoError(t, err)
		p.Pairs, p.Optimizer = rapid.SampledFrom([]wiring.Pairing{wiring.Serial, wiring.Fused}).Draw(t, "pairs"), rapid.Bool().Draw(t, "with optimizer")
	}
	stages := p.Placement.Stages()
	if rapid.Bool().Draw(t, "sums") {
		for range stages {
			p.Sync.Buckets = append(p.Sync.Buckets, rapid.SliceOfN(rapid.Int64Range(0, 50), 0, 3).Draw(t, "buckets"))
		}
		p.Sync.Parameters = rapid.SliceOfN(rapid.Int64Range(0, 50), stages, stages).Draw(t, "parameters")
		p.Sync.Overlap, p.Sync.Sharded = rapid.Bool().Draw(t, "overlap"), rapid.Bool().Draw(t, "sharded")
		p.Sync.EveryMicrobatch = rapid.Bool().Draw(t, "every microbatch")
		if p.Placement.Second == nil && rapid.IntRange(0, 2).Draw(t, "ahead") == 0 {
			for range stages {
				p.Sync.Ahead = append(p.Sync.Ahead, rapid.SliceOfN(rapid.Int64Range(0, 50), 0, 3).Draw(t, "pieces"))
			}
		}
	}
	if stages > 1 && rapid.Bool().Draw(t, "tied") {
		p.Tied = []wiring.Tied{{Stages: []int{0, stages - 1}, Bytes: 7}, {Stages: []int{0}}}
	}
	if r := p.Shape.Replicas; r > 1 && rapid.IntRange(0, 3).Draw(t, "shards") == 0 {
		p.Samples = nil // which shards take the place of
		p.Shards = rapid.SliceOfN(rapid.Int64Range(1, 3), r, r).Draw(t, "shares")
	}
	if (p.Pairs == wiring.Serial || !p.Order.Paired()) && rapid.Bool().Draw(t, "experts") {
		ordertest.DrawExperts(t, &p)
		if p.Shards != nil {
			p.ExpertSpan = 1
		}
	}
	return p
}

// drawClassPrices draws a duration and memory for every kind of task, other ones by rank,
// stage, part and size; links are shared by so many ranks, and all replicas are the same
// if they are to be.
func drawClassPrices(t *rapid.T, p wiring.Pipeline, alike bool) graph.Costs {
	busy := rapid.SliceOfN(rapid.IntRange(0, 4), int(graph.Kinds), -1).Draw(t, "busy")
	bytes := rapid.SliceOfN(rapid.Int64Range(-3, 5), 64, 64).Draw(t, "bytes")
	latency, links := rapid.IntRange(0, 3).Draw(t, "latency"), rapid.IntRange(0, 2).Draw(t, "links")
	spread, perLink := rapid.IntRange(0, 2).Draw(t, "spread"), rapid.Int32Range(1, 4).Draw(t, "ranks of a link")
	remembers, inner := rapid.Bool().Draw(t, "remembers"), rapid.Bool().Draw(t, "inner")
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
		if inner && task.Kind.Compute() {
			c.Inner = &graph.Inner{Within: graph.Within{Communication: c.Busy, Exposed: c.Busy / 2, SentBytes: 3}}
		}
		return c
	}}
}

// drawThreads draws threads that launch tasks, one for every rank, or none.
func drawThreads(t *rapid.T, p wiring.Pipeline) *graph.Host {
	if rapid.Bool().Draw(t, "launched for nothing") {
		return nil
	}
	h := &graph.Host{Queue: rapid.IntRange(0, 3).Draw(t, "queue"), Waits: rapid.Bool().Draw(t, "waits")}
	if rapid.Bool().Draw(t, "one after another") {
		h.Thread = graph.InOrder(p.Shape.Ranks * max(1, p.Shape.Replicas)).First
	}
	return h
}

// requireSame requires a packed graph to run as the other does, to the nanosecond, the
// byte and the cause.
func requireSame(t *rapid.T, g *graph.Graph, p *graph.Packed, costs graph.Costs) {
	require.NoError(t, p.Price(costs))
	require.Equal(t, g.Streams, p.Graph.Streams)
	require.Equal(t, g.Groups, p.Graph.Groups)
	require.Equal(t, len(g.Tasks), p.Size())
	trace, err := sim.Run(g, costs)
	engine := sim.Packed{Causes: true}
	packedErr := engine.Run(p)
	if err != nil {
		require.Error(t, packedErr)
		return
	}
	require.NoError(t, packedErr)
	start, order := g.ByStream()
	require.Equal(t, start, p.Begin)
	place := make([]int32, len(order))
	for at, i := range order {
		place[i] = int32(at)
	}
	var path []int32
	for _, i := range sim.CriticalPath(trace) {
		path = append(path, place[i])
	}
	for at, i := range order {
		class, task := p.Tasks[at].Class, g.Tasks[i]
		like := p.Graph.Tasks[class]
		like.Microbatch = task.Microbatch
		require.Equal(t, task, like)
		begin := p.Tasks[at].Start
		if trace.Ready != nil {
			require.Equal(t, trace.Ready[i], p.Ready(int32(at)), "%s", g.Describe(i))
		}
		require.Equal(t, trace.Spans[i], graph.Span{Start: begin, End: begin + p.Classes[class].Busy}, "%s", g.Describe(i))
	}
	require.Equal(t, path, engine.CriticalPath())
	var statistics graph.Statistics
	var summary graph.Summary
	statistics.Summarize(p, &summary)
	require.Equal(t, graph.Summarize(trace), summary)
}

func TestPackedPipelines(t *testing.T) {
	var packer wiring.Packer
	rapid.Check(t, func(t *rapid.T) {
		p := drawPackable(t)
		g, err := p.Graph()
		require.NoError(t, err)
		packed, err := packer.Pack(p, false)
		require.NoError(t, err)
		requireSame(t, g, packed, drawClassPrices(t, p, false))
	})
}

// One replica stands for all where these do the same at the same time, and says so where
// they do not.
func TestFolding(t *testing.T) {
	var packer wiring.Packer
	folded := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawPackable(t)
		alike := rapid.Bool().Draw(t, "alike")
		costs := drawClassPrices(t, p, alike)
		g, err := p.Graph()
		require.NoError(t, err)
		packed, err := packer.Pack(p, true)
		if p.Shards != nil {
			require.ErrorIs(t, err, graph.ErrNotAlike)
			return
		}
		require.NoError(t, err)
		require.Equal(t, len(g.Tasks), packed.Size())
		if err := packed.Price(costs); err != nil {
			require.ErrorIs(t, err, graph.ErrNotAlike)
			require.Greater(t, g.Shape.Replicas, 1)
			return
		}
		trace, err := sim.Run(g, costs)
		engine := sim.Packed{Causes: true}
		if err != nil {
			require.Error(t, engine.Run(packed))
			return
		}
		require.NoError(t, engine.Run(packed))
		if g.Shape.Replicas > 1 {
			folded++
		}
		var statistics graph.Statistics
		var summary graph.Summary
		statistics.Summarize(packed, &summary)
		require.Equal(t, graph.Summarize(trace), summary)
		var want, path []graph.Span
		for _, i := range sim.CriticalPath(trace) {
			want = append(want, trace.Spans[i])
		}
		for _, i := range engine.CriticalPath() {
			start := packed.Tasks[i].Start
			path = append(path, graph.Span{Start: start, End: start + packed.Classes[packed.Tasks[i].Class].Busy})
		}
		require.Equal(t, want, path)
	})
	require.Greater(t, folded, 5)
}
