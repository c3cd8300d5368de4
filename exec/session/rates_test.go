package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/results"
	"psim/schedules/graph"
)

// Two steps of one rank, 10 and 30 long, begin their backwards after 4 and 12. That is 2 steps
// in 16, while the true rate is 2 in 40.
func TestUnwaitedRatesByHand(t *testing.T) {
	tokens, samples := unwaitedRates([]*graph.Trace{step(1, 4, 6), step(1, 12, 18)}, 800, 8)
	require.InEpsilon(t, 2*8/16.0, *samples, 1e-12)
	require.InEpsilon(t, 2*800/16.0, *tokens, 1e-12)
	tokens, _ = unwaitedRates([]*graph.Trace{step(1, 4, 6)}, 0, 8)
	require.Nil(t, tokens)
}

// A clock that does not wait for devices never shows a rate below the true one over the same
// steps.
func TestUnwaitedRatesAreNoneBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 3).Draw(t, "ranks")
		var traces []*graph.Trace
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			traces = append(traces, step(ranks, rapid.IntRange(1, 1000).Draw(t, "before"),
				rapid.IntRange(0, 1000).Draw(t, "last")))
		}
		r, _ := results.NewMeasured(traces, results.Info{Samples: 8, Tokens: 800})
		tokens, samples := unwaitedRates(traces, 800, 8)
		require.GreaterOrEqual(t, *samples, r.Throughput.Samples*(1-1e-12))
		require.GreaterOrEqual(t, *tokens, r.Throughput.Tokens*(1-1e-12))
	})
}

// step makes a trace whose ranks compute one after another, each with a forward and a backward
// of some seconds.
func step(ranks, forward, backward int) *graph.Trace {
	g := &graph.Graph{Shape: graph.Shape{Ranks: ranks, Microbatches: 1}, Placement: graph.InOrder(ranks)}
	trace := &graph.Trace{Graph: g}
	var at time.Duration
	for rank := range int32(ranks) {
		stream := g.AddStream(rank, "compute")
		for k, seconds := range []int{forward, backward} {
			g.Add(graph.Task{Kind: []graph.Kind{graph.Forward, graph.Backward}[k], Rank: rank, Stage: rank,
				Stream: stream, Peer: graph.None})
			took := time.Duration(seconds) * time.Second
			trace.Spans = append(trace.Spans, graph.Span{Start: at, End: at + took})
			at += took
		}
	}
	return trace
}
