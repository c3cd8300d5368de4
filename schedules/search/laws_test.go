package search

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// With a fixed order, no pass and no latency that gets longer makes anything end
// earlier.
func TestLongerIsNeverEarlier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawUnlike(t, rapid.Bool().Draw(t, "folded"))
		in.Limit = nil
		found := find(t, in).Order
		_, before, _ := simulated(t, in, found)
		longer := in
		k := rapid.SampledFrom(passes[:]).Draw(t, "kind")
		stage := int32(rapid.IntRange(0, in.stages()-1).Draw(t, "stage"))
		longer.Step = func(a order.Action) graph.Cost {
			c := in.Step(a)
			if a.Kind == k && a.Stage == stage {
				c.Busy += 5
			}
			return c
		}
		longer.Latency = append([]time.Duration(nil), in.Latency...)
		for s := range longer.Latency {
			longer.Latency[s] += time.Duration(rapid.IntRange(0, 3).Draw(t, "latency"))
		}
		_, after, _ := simulated(t, longer, found)
		require.GreaterOrEqual(t, after, before)
		q, err := longer.prepare()
		require.NoError(t, err)
		require.LessOrEqual(t, before, time.Duration(newEvaluator(q).run(q.sequences(found)).makespan))
	})
}

// In units of time that are k times as fine, the same order is found, and all its
// times are k-fold.
func TestUnitsOfTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAlike(t, 4, 9)
		k := time.Duration(rapid.IntRange(2, 9).Draw(t, "scale"))
		scaled := a
		scaled.f, scaled.i, scaled.w, scaled.c = k*a.f, k*a.i, k*a.w, k*a.c
		one, many := find(t, a.problem()), find(t, scaled.problem())
		require.Equal(t, one.Order, many.Order)
		require.Equal(t, k*one.Span, many.Span)
		require.Equal(t, k*one.Makespan, many.Makespan)
		// Of a V only the times, because the pauses of its building blocks are rounded.
		a.f, a.i, a.w, a.c, a.limit = 60*a.f, 60*a.i, 60*a.w, 60*a.c, 2*a.limit
		one = find(t, a.folded())
		scaled = a
		scaled.f, scaled.i, scaled.w, scaled.c = k*a.f, k*a.i, k*a.w, k*a.c
		span, makespan, _ := simulated(t, scaled.folded(), one.Order)
		require.Equal(t, k*one.Span, span)
		require.Equal(t, k*one.Makespan, makespan)
	})
}

func TestDeterminism(t *testing.T) {
	a := alike{p: 5, m: 13, f: 7, i: 8, w: 5, c: 1, whole: 5, late: 2, limit: 31}
	for _, in := range []Problem{a.problem(), a.folded()} {
		require.Equal(t, find(t, in), find(t, in))
	}
}

func TestFindStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, in := range []Problem{unit(4, 8, 0).problem(), alike{p: 4, m: 8, f: 3, i: 5, w: 1, whole: 1, late: 1, limit: 5}.folded()} {
		_, err := Find(ctx, in)
		require.ErrorIs(t, err, context.Canceled)
	}
}
