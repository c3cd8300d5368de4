package results

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/graph"
)

// time         0123456789
// compute      .FFFF.BB..   F is made of 3 parts of products and 1 of attention
// ready        f.....b...
// message      ....ss....   of which one unit is beside F
// optimizer    .........O
func TestAccountByHand(t *testing.T) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 1, Microbatches: 1}}
	compute, send := g.AddStream(0, "compute"), g.AddStream(0, "send")
	g.Add(graph.Task{Kind: graph.Forward, Stream: compute})
	g.Add(graph.Task{Kind: graph.SendForward, Stream: send})
	g.Add(graph.Task{Kind: graph.Backward, Stream: compute})
	g.Add(graph.Task{Kind: graph.Optimizer, Stream: compute})
	trace := &graph.Trace{Graph: g, Spans: []graph.Span{{Start: 1, End: 5}, {Start: 4, End: 6}, {Start: 6, End: 8}, {Start: 9, End: 10}}}
	trace.Ready = []time.Duration{0, 4, 6, 9}
	made := func(task *graph.Task) []graph.Share {
		if task.Kind == graph.Forward {
			return []graph.Share{{Class: "products", Time: 30}, {Class: "attention", Time: 10}}
		}
		return []graph.Share{{Class: "products", Time: 7}}
	}
	e := NewExplanation(trace, []int32{0, 1, 2, 3}, made)
	const ns = 1e-9
	require.Equal(t, map[string]float64{
		"products": 5 * ns, "attention": 1 * ns, "launches": 1 * ns, "pipeline": 1 * ns, "optimizer": 1 * ns, "waiting": 1 * ns,
	}, e.ByClass)
	require.Equal(t, map[string]float64{"pipeline": 1 * ns}, e.Beside)
	require.Equal(t, map[string]float64{
		"products": 4 * ns, "attention": 1 * ns, "pipeline": 2 * ns, "launches": 1 * ns, "optimizer": 1 * ns, "waiting": 1 * ns,
	}, e.CriticalPath, "the message begins before F ends, and counts from there")
	require.Equal(t, []string{"products", "attention", "launches", "pipeline", "optimizer", "waiting"}, e.Classes())
}

// Every instant of a rank counts once: a count instant by instant agrees.
func TestAccountByInstant(t *testing.T) {
	kinds := []graph.Kind{graph.Forward, graph.Optimizer, graph.SendForward, graph.Average}
	rapid.Check(t, func(t *rapid.T) {
		const ranks = 2
		g := &graph.Graph{Shape: graph.Shape{Ranks: ranks, Microbatches: 1}}
		trace := &graph.Trace{Graph: g}
		for range rapid.IntRange(1, 12).Draw(t, "tasks") {
			rank := rapid.Int32Range(0, ranks-1).Draw(t, "rank")
			g.Add(graph.Task{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Rank: rank, Stream: g.AddStream(rank, "")})
			start := rapid.IntRange(0, 20).Draw(t, "start")
			trace.Spans = append(trace.Spans, graph.Span{Start: time.Duration(start), End: time.Duration(start + rapid.IntRange(0, 6).Draw(t, "length"))})
			trace.Ready = append(trace.Ready, time.Duration(rapid.IntRange(0, start).Draw(t, "ready")))
		}
		a := newAccount(trace, func(*graph.Task) []graph.Share { return []graph.Share{{Class: "products", Time: 1}} })
		a.ranks()
		want := map[string]time.Duration{}
		for r := range int32(ranks) {
			for now := range trace.End() {
				want[classAt(trace, r, now)]++
			}
		}
		require.Equal(t, want, a.time)
	})
}

// classAt says what a rank does at a moment.
func classAt(t *graph.Trace, rank int32, now time.Duration) string {
	var found [4]string
	for i, task := range t.Graph.Tasks() {
		if task.Rank != rank {
			continue
		}
		running := t.Span(i).Start <= now && now < t.Span(i).End
		switch {
		case running && task.Kind == graph.Forward:
			found[0] = "products"
		case running && task.Kind == graph.Optimizer:
			found[1] = "optimizer"
		case running && found[2] == "":
			found[2] = t.Graph.Work(&task)
		case (task.Kind == graph.Forward || task.Kind == graph.Optimizer) && t.Ready[i] <= now && now < t.Span(i).Start:
			found[3] = "launches"
		}
	}
	for _, class := range found {
		if class != "" {
			return class
		}
	}
	return "waiting"
}

// The mean over ranks is rounded, and its parts add up all the same.
func TestMeanKeepsTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 7).Draw(t, "ranks")
		each := rapid.IntRange(0, 1000).Draw(t, "each")
		left := ranks * each
		by := map[string]time.Duration{}
		for _, class := range []string{"products", "between", "data_all_gather", "optimizer"} {
			part := rapid.IntRange(0, left).Draw(t, class)
			by[class] = time.Duration(part)
			left -= part
		}
		by["waiting"] = time.Duration(left)
		var sum float64
		for class, seconds := range mean(by, 1, ranks) {
			require.InDelta(t, float64(by[class])/float64(ranks), seconds*1e9, 1)
			sum += seconds
		}
		require.InDelta(t, float64(each), sum*1e9, 1e-6)
	})
}
