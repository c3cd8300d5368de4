package sim_test

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
	"psim/sim"
)

// table5Row is a setting of Zero Bubble's table 5.
type table5Row struct {
	model        string
	layers, p, m int
	formCosts
	rate map[string]string // by schedule, four digits
}

func readTable5(t *testing.T) []table5Row {
	f, err := os.Open("testdata/zero_bubble_table5.csv")
	require.NoError(t, err)
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	var rows []table5Row
	for _, record := range records[1:] {
		cell := map[string]string{}
		for i, name := range records[0] {
			cell[name] = record[i]
		}
		count := func(name string) int {
			n, err := strconv.Atoi(cell[name])
			require.NoError(t, err)
			return n
		}
		ms := func(name string) time.Duration {
			d, err := time.ParseDuration(cell[name] + "ms")
			require.NoError(t, err)
			return d
		}
		row := table5Row{
			model: cell["model"], layers: count("layers"), p: count("p"), m: count("m"),
			formCosts: formCosts{ms("TF_ms"), ms("TB_ms"), ms("TW_ms"), ms("Tcomm_ms")}, rate: map[string]string{},
		}
		for _, name := range []string{"1F1B", "1F1BI", "ZBH1", "ZBH2", "ZB1p", "ZB2p"} {
			rate, err := strconv.ParseFloat(cell["bubble_"+name], 64)
			require.NoError(t, err)
			row.rate[name] = fmt.Sprintf("%.4f", rate)
		}
		rows = append(rows, row)
	}
	require.Len(t, rows, 12)
	return rows
}

// span is the bubble rate of the ranks' longest span, to four digits, and that
// span.
func (row table5Row) span(t *testing.T, name string, virtual int) (rate string, span time.Duration) {
	v := time.Duration(virtual)
	g := buildShape(t, name, graph.Shape{Ranks: row.p, Microbatches: row.m, Virtual: virtual})
	trace, err := sim.Run(g, halves(row.f/v, row.i/v, row.w/v, row.c))
	require.NoError(t, err)
	return fmt.Sprintf("%.4f", graph.Summarize(trace).Bubble.Span), longestSpan(trace)
}

// The 36 rates of 1F1B, ZB-H1 and ZB-H2 in Zero Bubble's table 5 are those of
// our orders, to the last digit printed. So are the 12 of ZB-1p, which the
// authors' search found: in all settings its rate is ZB-H1's.
func TestZeroBubbleTable5(t *testing.T) {
	for _, row := range readTable5(t) {
		for _, c := range [][2]string{{"1f1b", "1F1B"}, {"zb-h1", "ZBH1"}, {"zb-h2", "ZBH2"}, {"zb-h1", "ZB1p"}} {
			t.Run(fmt.Sprintf("%s p=%d m=%d %s", row.model, row.p, row.m, c[1]), func(t *testing.T) {
				rate, _ := row.span(t, c[0], 1)
				require.Equal(t, row.rate[c[1]], rate)
			})
		}
		require.Less(t, row.rate["ZB2p"], row.rate["ZBH2"], "ZB-2p is a search's, and better than ZB-H2 everywhere")
	}
}

// The table's 1F1B-I has one layer per chunk, the first and last stage one less.
// Of the 2(PV−1) boundaries that the interleaved order waits for (see its closed
// form), the table's times have P fewer: one turn around the ranks. With that
// span, p·Tcomm shorter, its rates are ours to the last digit.
func TestZeroBubbleTable5Interleaved(t *testing.T) {
	for _, row := range readTable5(t) {
		t.Run(fmt.Sprintf("%s p=%d m=%d", row.model, row.p, row.m), func(t *testing.T) {
			virtual := (row.layers + 2) / row.p
			rate, span := row.span(t, "interleaved-1f1b", virtual)
			require.Greater(t, rate, row.rate["1F1BI"])
			v := time.Duration(virtual)
			busy := time.Duration(row.m) * v * (row.f/v + row.i/v + row.w/v)
			shorter := span - time.Duration(row.p)*row.c
			require.Equal(t, row.rate["1F1BI"], fmt.Sprintf("%.4f", 1-float64(busy)/float64(shorter)))
		})
	}
}
