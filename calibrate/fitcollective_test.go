package calibrate_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/calibrate"
	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// The fit finds the two protocols that made the times, of every kind of collective.
func TestFitLink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		call := rapid.Int64Range(10_000, 100_000).Draw(t, "call") / 1000 * 1000
		slow := rapid.IntRange(10, 100).Draw(t, "GB/s")
		made := []link.SizeRange{
			{Ranks: 4, Call: units.Duration(call), Bandwidth: units.Rate(slow) * 1e9},
			{Ranks: 4, From: 8 << 20, Call: units.Duration(2 * call), Bandwidth: units.Rate(4*slow) * 1e9},
		}
		kind := rapid.SampledFrom([]graph.Kind{graph.AllReduce, graph.AllGather, graph.ReduceScatter}).Draw(t, "kind")
		found, err := calibrate.FitTimings(append(timingsBy(kind, made[0], 1, 2, 3, 4, 5, 6, 7), timingsBy(kind, made[1], 20, 18, 15, 12, 10, 9, 8)...))
		require.NoError(t, err)
		for _, table := range found.Tables() {
			if table.Kind != kind {
				require.Empty(t, table.Ranges)
				continue
			}
			require.Len(t, table.Ranges, 2)
			for i := range made {
				require.Equal(t, made[i].From, table.Ranges[i].From)
				require.InEpsilon(t, float64(made[i].Call), float64(table.Ranges[i].Call), 2e-3)
				require.InEpsilon(t, float64(made[i].Bandwidth), float64(table.Ranges[i].Bandwidth), 2e-3)
			}
		}
	})
	for _, bad := range [][]calibrate.CollectiveTiming{
		nil, {{Kind: graph.AllReduce, Ranks: 1, Bytes: 1, Time: 1}}, {{Kind: graph.AllReduce, Ranks: 2, Time: 1}}, {{Kind: graph.AllGather, Ranks: 2, Bytes: 1}}, {{Kind: graph.Send, Ranks: 2, Bytes: 1, Time: 1}},
	} {
		_, err := calibrate.FitTimings(bad)
		require.Error(t, err)
	}
}

// timingsBy are the times that a range makes, of sizes in MiB.
func timingsBy(k graph.Kind, r link.SizeRange, sizes ...int64) (list []calibrate.CollectiveTiming) {
	r.From = 0
	table := []link.SizeRange{r}
	l := link.Link{Bandwidth: 1}
	switch k {
	case graph.AllReduce:
		l.AllReduce = table
	case graph.AllGather:
		l.AllGather = table
	default:
		l.ReduceScatter = table
	}
	for _, mb := range sizes {
		list = append(list, calibrate.CollectiveTiming{Kind: k, Ranks: r.Ranks, Bytes: mb << 20, Time: l.CollectiveTime(k, r.Ranks, mb<<20)})
	}
	return list
}

// Other numbers of ranks are priced from all-reduces, whose calls have 2(n−1) steps, or,
// without these, from all-gathers, which have half as many.
func TestFitLinkBeyondTables(t *testing.T) {
	two := link.SizeRange{Ranks: 2, Call: 12_000, Bandwidth: 6e9}
	eight := link.SizeRange{Ranks: 8, Call: 24_000, Bandwidth: 9e9}
	of := func(k graph.Kind) []calibrate.CollectiveTiming {
		return append(timingsBy(k, two, 1, 2, 4), timingsBy(k, eight, 1, 2, 4)...)
	}
	for _, c := range []struct {
		timings []calibrate.CollectiveTiming
		step    float64
	}{{of(graph.AllReduce), 1000}, {of(graph.AllGather), 2000}, {append(of(graph.ReduceScatter), of(graph.AllReduce)...), 1000}} {
		l, err := calibrate.FitTimings(c.timings)
		require.NoError(t, err)
		require.InDelta(t, 10_000, float64(l.Call), 20)
		require.InDelta(t, c.step, float64(l.Latency), 2)
		require.InEpsilon(t, 6e9, float64(l.Bandwidth), 1e-3)
		require.InEpsilon(t, 9e9, float64(l.Collective), 1e-3)
	}
}

// Any positive timings have a fit, with a bandwidth and times that are no less
// than nothing.
func TestFitLinkOfAnything(t *testing.T) {
	kinds := []graph.Kind{graph.AllReduce, graph.AllGather, graph.ReduceScatter}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) calibrate.CollectiveTiming {
			return calibrate.CollectiveTiming{
				Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Ranks: rapid.IntRange(2, 4).Draw(t, "n"), Bytes: rapid.Int64Range(1, 1<<40).Draw(t, "S"),
				Time: time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "t")),
			}
		}), 1, 12).Draw(t, "timings")
		l, err := calibrate.FitTimings(list)
		require.NoError(t, err)
		require.Positive(t, l.Bandwidth)
		for _, x := range list {
			own := l.Tables()[slices.Index(kinds, x.Kind)]
			require.True(t, slices.ContainsFunc(own.Ranges, func(r link.SizeRange) bool { return r.Ranks == x.Ranks }), "measured")
			took := l.CollectiveTime(x.Kind, x.Ranks, x.Bytes)
			require.GreaterOrEqual(t, took, time.Duration(0))
			require.Less(t, took, 1000*time.Hour*24)
		}
	})
}

// Repeated by mistake, a file would keep the fit busy for hours.
func TestTooManyTimings(t *testing.T) {
	list := make([]calibrate.CollectiveTiming, 501)
	for i := range list {
		list[i] = calibrate.CollectiveTiming{Kind: graph.AllGather, Ranks: 2, Bytes: 1024, Time: time.Microsecond}
	}
	_, err := calibrate.FitTimings(list)
	require.ErrorContains(t, err, "there are 501 times of all_gather over 2 ranks, more than the 250 that can be fitted")
}
