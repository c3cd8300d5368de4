package reports

import (
	"io"
	"math"
	"slices"
	"strconv"

	"psim/internal/csvfile"
	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// WriteResultCSV writes a header and a row per rank, in seconds and bytes. The
// two parts of the idle time are columns only where they are known. Of several
// runs it writes the ranks of all, with the schedule as the last column.
func WriteResultCSV(w io.Writer, r results.Result) error {
	columns := "rank,compute_s,communication_s,exposed_communication_s,optimizer_s,idle_s," +
		"peak_memory_bytes,persistent_memory_bytes,peak_in_flight,sent_bytes"
	split := slices.ContainsFunc(r.Ranks, func(x results.RankResult) bool { return x.Dispatch != nil || x.Waiting != nil })
	if split {
		columns += ",dispatch_s,waiting_s"
	}
	runs := []results.Result{r}
	if r.Runs != nil {
		columns, runs = columns+",schedule", r.Runs
	}
	out := csvfile.NewWriter(w, columns)
	for _, run := range runs {
		for _, x := range run.Ranks {
			row := []any{x.Rank, x.Compute, x.Communication, x.ExposedCommunication, x.Optimizer, x.Idle,
				x.PeakMemory, x.PersistentMemory, x.PeakInFlight, x.SentBytes}
			if split {
				row = append(row, results.OrZero(x.Dispatch), results.OrZero(x.Waiting))
			}
			if r.Runs != nil {
				row = append(row, run.Schedule)
			}
			out.Row(row...)
		}
	}
	return out.End()
}

// A rankColumn is a column of the table of ranks.
type rankColumn struct {
	title    string
	optional bool // left out where it is 0 on all ranks
	value    func(results.RankResult) float64
	format   func(float64) string
}

// rankColumns lists the columns of a table of some ranks.
func rankColumns(ranks []results.RankResult) []rankColumn {
	bytes := func(x float64) string { return units.FormatBytes(int64(math.Round(x))) }
	count := func(x float64) string { return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64) }
	columns := []rankColumn{
		{"samples", true, func(r results.RankResult) float64 { return float64(r.Samples) }, count},
		{"compute", false, func(r results.RankResult) float64 { return r.Compute }, units.FormatSeconds},
		{"communication", false, func(r results.RankResult) float64 { return r.Communication }, units.FormatSeconds},
		{"exposed", false, func(r results.RankResult) float64 { return r.ExposedCommunication }, units.FormatSeconds},
		{"optimizer", true, func(r results.RankResult) float64 { return r.Optimizer }, units.FormatSeconds},
		{"idle", false, func(r results.RankResult) float64 { return r.Idle }, units.FormatSeconds},
		{"waiting", true, func(r results.RankResult) float64 { return results.OrZero(r.Waiting) }, units.FormatSeconds},
		{"dispatch", true, func(r results.RankResult) float64 { return results.OrZero(r.Dispatch) }, units.FormatSeconds},
		{"peak memory", true, func(r results.RankResult) float64 { return float64(r.PeakMemory) }, bytes},
		{"in flight", true, func(r results.RankResult) float64 { return float64(r.PeakInFlight) }, count},
		{"sent", true, func(r results.RankResult) float64 { return float64(r.SentBytes) }, bytes},
	}
	return slices.DeleteFunc(columns, func(c rankColumn) bool {
		return c.optional && !slices.ContainsFunc(ranks, func(r results.RankResult) bool { return c.value(r) != 0 })
	})
}

// rankRows makes the table of ranks, of many with the spread of every column.
func rankRows(ranks []results.RankResult) [][]string {
	columns := rankColumns(ranks)
	heading := []string{"rank"}
	for _, c := range columns {
		heading = append(heading, c.title)
	}
	rows, all := table.Excerpt(ranks, func(r results.RankResult) []string {
		row := []string{strconv.Itoa(r.Rank)}
		for _, c := range columns {
			row = append(row, c.format(c.value(r)))
		}
		return row
	})
	if !all {
		rows = append(append(rows, nil), spread(ranks, columns)...)
	}
	return append([][]string{heading}, rows...)
}

// spread adds the least, the mean and the greatest value of every column.
func spread(ranks []results.RankResult, columns []rankColumn) [][]string {
	rows := [][]string{{"min"}, {"mean"}, {"max"}}
	for _, c := range columns {
		low, high, sum := math.Inf(1), math.Inf(-1), 0.0
		for _, r := range ranks {
			x := c.value(r)
			low, high, sum = min(low, x), max(high, x), sum+x
		}
		rows[0] = append(rows[0], c.format(low))
		rows[1] = append(rows[1], c.format(sum/float64(len(ranks))))
		rows[2] = append(rows[2], c.format(high))
	}
	return rows
}
