package graph

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Merging the streams of a rank gives what sorting all its spans does.
func TestMergedSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &Graph{Shape: Shape{Ranks: 1, Microbatches: 1}}
		trace := &Trace{Graph: g}
		streams := rapid.IntRange(1, 3).Draw(t, "streams")
		free := make([]time.Duration, streams)
		for s := range streams {
			g.AddStream(0, "s")
			for range rapid.IntRange(0, 8).Draw(t, "tasks") {
				kind := Kind(rapid.IntRange(0, int(Kinds)-1).Draw(t, "kind"))
				g.Add(Task{Kind: kind, Stream: int32(s)})
				start := free[s] + time.Duration(rapid.IntRange(0, 3).Draw(t, "gap"))
				free[s] = start + time.Duration(rapid.IntRange(0, 3).Draw(t, "busy"))
				trace.Spans = append(trace.Spans, Span{start, free[s]})
			}
		}
		ranks := newRankStreams(trace)
		var merged, sorted RankSummary
		u, inOrder := ranks.merge(0)
		require.True(t, inOrder)
		u.fill(&merged, 100)
		spans := ranks.collect(0)
		require.Equal(t, spans.summarize(&sorted, 100), u.span())
		require.Equal(t, sorted, merged)
	})
}
