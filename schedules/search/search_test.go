package search

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules/order"
)

func find(t require.TestingT, in Problem) Solution {
	r, err := Find(context.Background(), in)
	require.NoError(t, err)
	return r
}

// checkResult holds a result to the engine: the order is legal, takes what the
// search says, respects the limit at every moment, and is not below the bound.
func checkResult(t require.TestingT, in Problem, r Solution) {
	require.NoError(t, r.Order.Validate(in.placed(), in.Microbatches))
	span, makespan, peaks := simulated(t, in, r.Order)
	require.Equal(t, span, r.Span)
	require.Equal(t, makespan, r.Makespan)
	require.GreaterOrEqual(t, r.Span, r.LowerBound)
	for rank, peak := range peaks {
		if in.Limit != nil {
			require.LessOrEqual(t, peak, in.Limit[rank], "rank %d", rank)
		}
	}
}

func TestFoundOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawAlike(t, 6, 12).problem()
		checkResult(t, in, find(t, in))
	})
}

// With stages and microbatches that differ, and passes that take memory in the
// way of a network's.
func TestFoundOrdersUnlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawUnlike(t, rapid.Bool().Draw(t, "folded"))
		if in.Limit != nil {
			q, err := in.prepare()
			if q == nil || err != nil {
				require.ErrorAs(t, err, new(*MemoryError))
				return
			}
		}
		checkResult(t, in, find(t, in))
	})
}

// With few microbatches, all alike, whatever is tried under one limit is tried
// under every higher one.
func TestMemoryNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAlike(t, 5, 16)
		a.late = a.whole
		a.limit = a.whole * rapid.Int64Range(1, 12).Draw(t, "less")
		less := find(t, a.problem())
		a.limit += a.whole * rapid.Int64Range(0, 12).Draw(t, "more")
		more := find(t, a.problem())
		require.LessOrEqual(t, more.Span, less.Span)
		require.LessOrEqual(t, more.LowerBound, less.LowerBound)
	})
}

// What is published is never better where it fits.
func TestNoWorseThanPublished(t *testing.T) {
	drawn, fitting := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		drawn++
		in := drawAlike(t, 6, 20).problem()
		q, err := in.prepare()
		require.NoError(t, err)
		found := find(t, in)
		for _, w := range q.published() {
			span, _, peaks := simulated(t, in, q.order(w))
			fits := true
			for r := range peaks {
				fits = fits && (in.Limit == nil || peaks[r] <= in.Limit[r])
			}
			require.Equal(t, fits, q.allLegal(w, q.limit))
			if fits {
				fitting++
				require.LessOrEqual(t, found.Span, span)
			}
		}
	})
	require.Greater(t, 2*fitting, drawn) // however many problems are drawn
}

// What is found, against silent change.
func TestFoundWords(t *testing.T) {
	for _, c := range []struct {
		in   alike
		want string
	}{
		{unit(3, 6, 3), "FFFIWFIWFIWFIWIWIW FFIFIWFIWFIWFIWIWW FIFIFIWFIWFIWFIWWW"},
		{unit(3, 6, 6), "FFFFFIWFIWIWIWIWIW FFFIFIFIWFIWIWIWWW FIFIFIFIFIWFIWWWWW"},
		{alike{p: 3, m: 6, f: 3, i: 3, w: 1, c: 1, whole: 3, late: 1, limit: 15}, "FFFFFIWFIWIWIWIWIW FFFIFIFIFIWWWIWWIW FIFIFIFIFIFIWWWWWW"},
	} {
		require.Equal(t, c.want, spelled(find(t, c.in.problem()).Order))
	}
}

// spelled is the operations of all ranks.
func spelled(o order.Order) string {
	var ranks []string
	for _, actions := range o {
		seq := ""
		for _, a := range actions {
			seq += a.Kind.String()
		}
		ranks = append(ranks, seq)
	}
	return strings.Join(ranks, " ")
}

func TestPublishedOrders(t *testing.T) {
	q, err := unit(3, 4, 0).problem().prepare()
	require.NoError(t, err)
	for i, want := range []string{
		"0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n" +
			"1F0 1F1 1I0 1W0 1F2 1I1 1W1 1F3 1I2 1W2 1I3 1W3\n" +
			"2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2 2F3 2I3 2W3\n",
		"0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n" +
			"1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3\n" +
			"2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3\n",
		"0F0 0F1 0F2 0F3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3\n" +
			"1F0 1F1 1F2 1I0 1F3 1I1 1I2 1W0 1I3 1W1 1W2 1W3\n" +
			"2F0 2I0 2F1 2I1 2F2 2I2 2F3 2I3 2W0 2W1 2W2 2W3\n",
	} {
		require.Equal(t, want, q.order(q.published()[i]).String())
	}
}

func TestProblemErrors(t *testing.T) {
	for _, c := range []struct {
		in   Problem
		want string
	}{
		{unit(0, 1, 0).shape(), "at least one of each"},
		{unit(3000, 3000, 0).shape(), "more than the 4194304 tasks"},
		{Problem{Ranks: 2, Microbatches: 1, Limit: []int64{1}}, "1 memory limits for 2 ranks"},
		{Problem{Ranks: 1, Microbatches: 1, Latency: unit(3, 1, 0).problem().Latency}, "2 latencies for 0 boundaries"},
		{alike{p: 1, m: 1, f: -1}.problem(), "negative time"},
		{alike{p: 2, m: 3, f: 1, i: 1, w: 1, whole: 9, late: 3, limit: 8}.problem(), "rank 0 needs 9 bytes for one microbatch, more than its limit of 8"},
	} {
		_, err := Find(context.Background(), c.in)
		require.ErrorContains(t, err, c.want)
	}
}

// shape is a problem of a size, without anything else.
func (a alike) shape() Problem { return Problem{Ranks: a.p, Microbatches: a.m} }

// BenchmarkFind searches the largest setting of the paper under the memory of half
// a pipeline's microbatches, of one and of two.
func BenchmarkFind(b *testing.B) {
	for _, microbatches := range []int64{16, 32, 64} {
		b.Run(fmt.Sprint(microbatches), func(b *testing.B) {
			in := alike{p: 32, m: 256, f: 10402, i: 10248, w: 7698, c: 460, whole: 454656, late: 196608, limit: microbatches * 454656}.problem()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Find(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
