package search

import (
	"encoding/csv"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A row of testdata/zero-bubble.csv: a setting of the paper, and its bubbles.
type row struct {
	alike
	h1, h2, auto1, auto2 float64
}

// zeroBubble reads the paper's settings. Activations are as its table 2 counts
// them for a transformer block: s·b·h·(34 + 5·a·s/h), of which 32·s·b·h stay for
// W.
func zeroBubble(t *testing.T) []row {
	f, err := os.Open("testdata/zero-bubble.csv")
	require.NoError(t, err)
	defer f.Close()
	reader := csv.NewReader(f)
	reader.Comment = '#'
	lines, err := reader.ReadAll()
	require.NoError(t, err)
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	var rows []row
	for _, line := range lines[1:] {
		number := func(name string) float64 {
			v, err := strconv.ParseFloat(line[column[name]], 64)
			require.NoError(t, err)
			return v
		}
		ms := func(name string) time.Duration { return time.Duration(number(name)*1e3) * time.Microsecond }
		rows = append(rows, row{
			alike: alike{
				p: int(number("p")), m: int(number("m")), f: ms("TF_ms"), i: ms("TB_ms"), w: ms("TW_ms"), c: ms("Tcomm_ms"),
				whole: int64(34*number("hidden") + 5*number("heads")*number("seq")), late: int64(32 * number("hidden")),
			},
			h1: number("bubble_ZBH1"), h2: number("bubble_ZBH2"), auto1: number("bubble_ZB1p"), auto2: number("bubble_ZB2p"),
		})
	}
	require.Len(t, rows, 12)
	return rows
}

// bubble is the idle share of a span.
func (a alike) bubble(span time.Duration) float64 {
	return 1 - float64(time.Duration(a.m)*(a.f+a.i+a.w))/float64(span)
}

// TestZeroBubbleTable5 reaches the bubbles of the paper's ZB-1p and ZB-2p, under
// the memory of P and of 2P microbatches, to its four digits.
func TestZeroBubbleTable5(t *testing.T) {
	const rounding = 0.00006
	for _, row := range zeroBubble(t) {
		for _, c := range []struct {
			microbatches int
			want, hand   float64
		}{{row.p, row.auto1, row.h1}, {2 * row.p, row.auto2, row.h2}} {
			row.limit = int64(c.microbatches) * row.whole
			r := find(t, row.problem())
			got := row.bubble(r.Span)
			t.Logf("P=%d M=%d, memory of %d microbatches: %.4f, the paper %.4f; lower bound %.4f", row.p, row.m, c.microbatches, got, c.want, row.bubble(r.LowerBound))
			require.LessOrEqual(t, got, c.want+rounding)
			require.LessOrEqual(t, got, c.hand+rounding)
		}
	}
}

// TestUnitTimes has no bubble with the memory of 2P microbatches, and P−1 units
// with that of P, which the bound proves best.
func TestUnitTimes(t *testing.T) {
	for p := 2; p <= 8; p++ {
		for _, m := range []int{2 * p, 2*p + 1, 3 * p} {
			one := find(t, unit(p, m, int64(p)).problem())
			require.EqualValues(t, 3*m+p-1, one.Span)
			require.Equal(t, one.Span, one.LowerBound)
			require.Zero(t, one.Gap())
			two := find(t, unit(p, m, int64(2*p)).problem())
			require.EqualValues(t, 3*m, two.Span)
		}
	}
}
