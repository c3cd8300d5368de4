package wiring_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// Three pieces are gathered one after another, and every part of the first forward waits
// for its own.
func TestAhead(t *testing.T) {
	p := ddp(t, 2, 2, 30)
	p.Sync.Sharded, p.Sync.Ahead = true, [][]int64{{5, 5, 5}}
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: 0F0 0F0.1 0F0.2 0B0 0F1 0B1 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0ALL_GATHER 0ALL_GATHER 0ALL_GATHER 0REDUCE_SCATTER`), strings.Split(synchronised(g), "1 compute")[0])
	trace := ordertest.Relax(t, g, func(t *graph.Task) time.Duration {
		if t.Kind == graph.AllGather {
			return time.Duration(t.Bytes)
		}
		return 4
	})
	var ends []time.Duration
	for i, task := range g.Tasks() {
		if task.Rank == 0 && task.Kind == graph.Forward {
			ends = append(ends, trace.Span(i).End)
		}
	}
	require.Equal(t, []time.Duration{5 + 4, 10 + 4, 15 + 4, 15 + 4 + 4 + 4}, ends)

	p.Shape.Replicas = 1
	require.NotContains(t, synchronised(ordertest.Graph(t, p)), "GATHER")
	p.Shape.Replicas, p.WholeLast = 2, true
	_, err := p.Graph()
	require.ErrorContains(t, err, "to gather ahead")
}

// Gathering beside the first forward saves at most what is gathered after the first
// piece, and never costs anything.
func TestAheadHidesGathers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.Int64Range(0, 9), 1, 5).Draw(t, "pieces")
		parts := rapid.SliceOfN(rapid.Int64Range(0, 9), len(pieces), len(pieces)).Draw(t, "parts")
		var bytes, forward int64
		for i := range pieces {
			bytes, forward = bytes+pieces[i], forward+parts[i]
		}
		p := ddp(t, 2, rapid.IntRange(1, 3).Draw(t, "microbatches"), 1)
		p.Sync.Sharded, p.Sync.Parameters = true, [][]int64{{bytes}}
		step := func() time.Duration {
			g := ordertest.Graph(t, p)
			return ordertest.Relax(t, g, func(t *graph.Task) time.Duration {
				switch {
				case t.Kind == graph.AllGather:
					return time.Duration(t.Bytes)
				case t.Kind == graph.Forward && t.Microbatch == 0 && p.Sync.Ahead != nil:
					return time.Duration(parts[t.Part])
				case t.Kind == graph.Forward:
					return time.Duration(forward)
				}
				return 7
			}).End()
		}
		after := step()
		p.Sync.Ahead = [][]int64{pieces}
		saved := after - step()
		require.GreaterOrEqual(t, saved, time.Duration(0))
		require.LessOrEqual(t, saved, time.Duration(bytes-pieces[0]))
	})
}
