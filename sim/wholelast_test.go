package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/sim"
)

// A last stage that takes all microbatches at once begins after all other
// forwards, wherever stages are, and no other backward begins before it has ended.
func TestWholeLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := schedules.Find(rapid.SampledFrom([]string{"gpipe", "hw4"}).Draw(t, "schedule"))
		require.NoError(t, err)
		ranks, m := rapid.IntRange(1, 4).Draw(t, "ranks"), rapid.IntRange(1, 5).Draw(t, "microbatches")
		placement := rapid.SliceOfN(rapid.Int32Range(0, int32(ranks-1)), 1, 5).Draw(t, "placement")
		p, err := s.Pipeline(graph.Shape{Ranks: ranks, Microbatches: m}, placement)
		require.NoError(t, err)
		p.WholeLast = true
		g, err := p.Graph()
		require.NoError(t, err)
		require.NoError(t, g.Validate())
		trace, err := sim.Run(g, drawPrices(t, g))
		require.NoError(t, err)

		last := int32(len(placement) - 1)
		var into, head, out span
		for i := range int32(g.Len()) {
			at := trace.Span(i)
			switch task := new(g.Task(i)); {
			case task.Stage == last && task.Kind.Compute():
				head.add(at)
			case task.Kind == graph.Forward:
				into.add(at)
			case task.Kind == graph.Backward:
				out.add(at)
			}
		}
		require.True(t, head.any)
		if into.any {
			require.GreaterOrEqual(t, head.start, into.end)
			require.GreaterOrEqual(t, out.start, head.end)
		}
	})
}

// span is from the first start to the last end.
type span struct {
	any        bool
	start, end time.Duration
}

func (s *span) add(at graph.Span) {
	if !s.any || at.Start < s.start {
		s.start = at.Start
	}
	s.any, s.end = true, max(s.end, at.End)
}

// Schedules with backwards between forwards cannot wait for all of them.
func TestWholeLastRefused(t *testing.T) {
	s, err := schedules.Find("1f1b")
	require.NoError(t, err)
	p, err := s.Pipeline(graph.Shape{Ranks: 2, Microbatches: 4}, nil)
	require.NoError(t, err)
	p.WholeLast = true
	_, err = p.Graph()
	require.ErrorContains(t, err, "whole_last = true: the last stage needs all forwards before its backwards")
	if s, err = schedules.Find("gpipe"); err == nil {
		p, err = s.Pipeline(graph.Shape{Ranks: 2, Microbatches: 4}, nil)
	}
	require.NoError(t, err)
	p.WholeLast, p.Synchronous = true, true
	_, err = p.Graph()
	require.ErrorContains(t, err, "set synchronous = false")
}
