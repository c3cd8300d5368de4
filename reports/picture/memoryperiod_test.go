package picture

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/results/tracecsv"
)

// sawtooth rises to its peak, repeats levels for some times, each held for a millisecond, and falls.
func sawtooth(levels []int64, times int) tracecsv.MemoryCurve {
	c := tracecsv.MemoryCurve{Persistent: 1}
	add := func(bytes int64) {
		at := time.Duration(len(c.Points)+1) * time.Millisecond
		c.Points = append(c.Points, tracecsv.MemoryPoint{At: at, Bytes: bytes})
	}
	for range times {
		for _, l := range levels {
			add(l)
		}
	}
	add(1)
	return c
}

// A curve of more changes than can be followed is an envelope, with one period enlarged. Its drawing
// does not grow with the number of changes. A curve of fewer is a line, and nothing is enlarged.
func TestLongRunIsAnEnvelope(t *testing.T) {
	draw := func(times int) string {
		c := sawtooth([]int64{40, 20, 30}, times)
		var b bytes.Buffer
		require.NoError(t, Memory(&b, SVG, MemoryFigure{Curves: []tracecsv.MemoryCurve{c}}))
		return b.String()
	}
	require.NotContains(t, draw(maxChanges/3-1), "enlarged")
	for _, times := range []int{100, 1000, 100_000} {
		svg := draw(times)
		require.Contains(t, svg, "enlarged below: one steady period of 3.00 ms")
		require.Less(t, len(svg), 20_000, times)
	}
}

func TestEnlarged(t *testing.T) {
	const ms = time.Millisecond
	part := func(curves ...tracecsv.MemoryCurve) memoryPart {
		p := memoryPlot{MemoryFigure: MemoryFigure{Curves: curves}, end: 301 * ms}
		_, levels := p.busiest()
		return enlarged(levels, p.end)
	}
	c := sawtooth([]int64{40, 20, 30}, 100)
	period := memoryPart{from: 149 * ms, to: 152 * ms, period: true}
	require.Equal(t, period, part(c))

	c.Points = slices.Insert(c.Points, 149, tracecsv.MemoryPoint{At: c.Points[149].At, Bytes: 7})
	require.Equal(t, period, part(c), "a level that holds for no time is no level")

	still := tracecsv.MemoryCurve{Persistent: 1} // returns to its level at once
	for i := range 400 {
		at := time.Duration(i) * ms / 2
		still.Points = append(still.Points, tracecsv.MemoryPoint{At: at}, tracecsv.MemoryPoint{At: at, Bytes: 1})
	}
	require.Equal(t, period, part(still, c))
	require.Equal(t, memoryPart{from: 135450 * ms / 1000, to: 165550 * ms / 1000}, part(still))

	for i := range c.Points {
		c.Points[i].Bytes = int64(i)
	}
	require.False(t, part(c).period)
	require.Equal(t, "enlarged below: a part of 30.1 ms", part(c).text())
}

// Curves of files may have any times and bytes: they are drawn without a panic.
func TestAnyLongCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SampledFrom([]time.Duration{0, 1, 2, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64})
		levels := rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 1, 1e9, math.MaxInt64})
		var c tracecsv.MemoryCurve
		for range 2 * maxChanges {
			c.Points = append(c.Points, tracecsv.MemoryPoint{At: times.Draw(t, "at"), Bytes: levels.Draw(t, "bytes")})
		}
		slices.SortStableFunc(c.Points, func(a, b tracecsv.MemoryPoint) int { return cmp.Compare(a.At, b.At) })
		if m := (MemoryFigure{Curves: []tracecsv.MemoryCurve{c}}); m.Drawable() {
			require.NoError(t, Memory(io.Discard, SVG, m))
		}
	})
}

// The period is the smallest shift by which the levels are equal.
func TestPeriodOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.SliceOfN(rapid.Int64Range(0, 2), 1, 6).Draw(t, "pattern")
		var levels []tracecsv.MemoryPoint
		for i := range rapid.IntRange(1, 40).Draw(t, "levels") {
			levels = append(levels, tracecsv.MemoryPoint{Bytes: pattern[i%len(pattern)]})
		}
		want := 1
		for !slices.Equal(levels[want:], levels[:len(levels)-want]) {
			want++
		}
		require.Equal(t, want, periodOf(levels))
	})
}
