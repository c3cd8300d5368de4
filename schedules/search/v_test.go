package search

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
)

// publishedOf is the span and makespan of a row of the catalog over a V, and the
// memory of the fullest rank.
func publishedOf(t require.TestingT, name string, a alike) (span, makespan int64, peak int64) {
	row, err := schedules.Find(name)
	require.NoError(t, err)
	order, err := row.Order(graph.Shape{Ranks: a.p, Microbatches: a.m}, nil)
	require.NoError(t, err)
	s, m, peaks := simulated(t, a.folded(), order)
	for _, p := range peaks {
		peak = max(peak, p)
	}
	return int64(s), int64(m), peak
}

// Under the memory that a published order takes, what is found is no worse, whatever
// passes take; and where it holds a third or half of the memory of 1F1B and times are
// uneven, it is mostly better.
func TestNoWorseThanPublishedV(t *testing.T) {
	better, all := 0, 0
	for _, p := range []int{2, 3, 4, 8} {
		for _, m := range []int{2 * p, 3 * p} {
			for _, a := range []alike{
				{f: 1, i: 1, w: 1}, {f: 3, i: 4, w: 3}, {f: 10, i: 15, w: 6, c: 3}, {f: 5, i: 9, w: 9, c: 1},
			} {
				a.p, a.m, a.whole, a.late = p, m, 2, 1
				for _, name := range []string{"v-min", "v-half", "zbv"} {
					span, makespan, peak := publishedOf(t, name, a)
					a.limit = peak
					r := find(t, a.folded())
					require.LessOrEqual(t, int64(r.Span), span, "%s %+v", name, a)
					if int64(r.Span) == span {
						require.LessOrEqual(t, int64(r.Makespan), makespan, "%s %+v", name, a)
					}
					if name != "zbv" && a.f > 1 {
						all++
						if int64(r.Span) < span {
							better++
						}
					}
				}
			}
		}
	}
	t.Logf("%d of %d shorter", better, all)
	require.Greater(t, 4*better, 3*all)
}

// With unit times and the memory of 1F1B there is no bubble; the building blocks
// find that by themselves on few ranks.
func TestUnitTimesV(t *testing.T) {
	for p := 2; p <= 6; p++ {
		r := find(t, unit(p, 2*p, int64(2*p)).folded())
		require.EqualValues(t, 6*2*p, r.Span)
		require.Zero(t, r.Gap())
	}
}

// Every order is legal, takes what the search says and never more than the limit.
func TestFoundOrdersV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAlike(t, 5, 9)
		if a.limit > 0 {
			a.limit += a.whole // for a microbatch on both stages
		}
		in := a.folded()
		checkResult(t, in, find(t, in))
	})
}

// Passes of different microbatches of a block never meet, and each comes after the
// one it needs.
func TestBlocks(t *testing.T) {
	found := 0 // for some times there is none, and the published orders have to do
	rapid.Check(t, func(t *rapid.T) {
		a := drawAlike(t, 6, 1)
		a.limit = a.whole * rapid.Int64Range(2, 20).Draw(t, "memory")
		q, err := a.folded().prepare()
		require.NoError(t, err)
		times := q.meanTimes()
		family := q.family(times, 1)
		found += len(family)
		for _, b := range family {
			var end int64
			for phase, o := range phases {
				for n := range q.p {
					r := n
					if phase%2 == 1 {
						r = q.p - 1 - n
					}
					long := times[o.kind()][q.slot(r, o.lane()).stage]
					require.GreaterOrEqual(t, b.due[r][o], end)
					end = b.due[r][o] + long
					for _, other := range phases[:phase] {
						since := mod(b.due[r][o]-b.due[r][other], b.period)
						require.GreaterOrEqual(t, since, times[other.kind()][q.slot(r, int(other/3)).stage])
						require.LessOrEqual(t, since+long, b.period)
					}
				}
			}
		}
	})
	require.Positive(t, found)
}

// No order of a V is below the bound: all sequences of two ranks and one microbatch,
// and of one rank and two.
func TestBoundV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawAlike(t, 2, 2)
		if a.p == 2 {
			a.m = 1
		}
		if a.limit > 0 {
			a.limit += a.whole
		}
		q, err := a.folded().prepare()
		require.NoError(t, err)
		best := optimum(q)
		require.LessOrEqual(t, q.lowerBound(), best.span)
		got := find(t, a.folded())
		require.GreaterOrEqual(t, int64(got.Span), best.span)
		require.LessOrEqual(t, 4*int64(got.Span), 5*best.span)
	})
}

func TestExactRefusesV(t *testing.T) {
	_, err := Exact(context.Background(), unit(2, 4, 4).folded(), 1)
	require.ErrorContains(t, err, "one stage per rank")
}

// BenchmarkFindV searches 16 ranks and 64 microbatches under a third, half and all of
// the memory of 1F1B.
func BenchmarkFindV(b *testing.B) {
	for _, limit := range []int64{12, 18, 32} {
		b.Run(fmt.Sprint(limit), func(b *testing.B) {
			in := alike{p: 16, m: 64, f: 10402, i: 10248, w: 7698, c: 460, whole: 2, late: 1, limit: 2 * limit}.folded()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Find(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
