package reports

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"psim/internal/units"
)

// WriteResultCSV writes a header and a row per rank, in seconds and bytes. The
// two parts of the idle time are columns only where they are known. Of several
// runs it writes the ranks of all, with the schedule as the last column.
func WriteResultCSV(w io.Writer, r Result) error {
	out := bufio.NewWriter(w)
	runs := r.Runs
	if runs == nil {
		runs = []Result{r}
	}
	out.WriteString("rank,compute_s,communication_s,exposed_communication_s,optimizer_s,idle_s," +
		"peak_memory_bytes,persistent_memory_bytes,peak_in_flight,sent_bytes")
	split := slices.ContainsFunc(r.Ranks, func(x RankResult) bool { return x.Dispatch != nil || x.Waiting != nil })
	if split {
		out.WriteString(",dispatch_s,waiting_s")
	}
	if r.Runs != nil {
		out.WriteString(",schedule")
	}
	out.WriteString("\n")
	for _, run := range runs {
		for _, x := range run.Ranks {
			fmt.Fprintf(out, "%d,%v,%v,%v,%v,%v,%d,%d,%d,%d", x.Rank,
				x.Compute, x.Communication, x.ExposedCommunication, x.Optimizer, x.Idle,
				x.PeakMemory, x.PersistentMemory, x.PeakInFlight, x.SentBytes)
			if split {
				fmt.Fprintf(out, ",%v,%v", known(x.Dispatch), known(x.Waiting))
			}
			if r.Runs != nil {
				out.WriteString("," + run.Schedule)
			}
			out.WriteString("\n")
		}
	}
	return out.Flush()
}

// A rankColumn is a column of the table of ranks.
type rankColumn struct {
	title    string
	optional bool // left out where it is 0 on all ranks
	value    func(RankResult) float64
	format   func(float64) string
}

// rankColumns lists the columns of a table of some ranks.
func rankColumns(ranks []RankResult) []rankColumn {
	bytes := func(x float64) string { return units.FormatBytes(int64(math.Round(x))) }
	count := func(x float64) string { return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64) }
	columns := []rankColumn{
		{"compute", false, func(r RankResult) float64 { return r.Compute }, duration},
		{"communication", false, func(r RankResult) float64 { return r.Communication }, duration},
		{"exposed", false, func(r RankResult) float64 { return r.ExposedCommunication }, duration},
		{"optimizer", true, func(r RankResult) float64 { return r.Optimizer }, duration},
		{"idle", false, func(r RankResult) float64 { return r.Idle }, duration},
		{"waiting", true, func(r RankResult) float64 { return known(r.Waiting) }, duration},
		{"dispatch", true, func(r RankResult) float64 { return known(r.Dispatch) }, duration},
		{"peak memory", true, func(r RankResult) float64 { return float64(r.PeakMemory) }, bytes},
		{"in flight", true, func(r RankResult) float64 { return float64(r.PeakInFlight) }, count},
		{"sent", true, func(r RankResult) float64 { return float64(r.SentBytes) }, bytes},
	}
	return slices.DeleteFunc(columns, func(c rankColumn) bool {
		return c.optional && !slices.ContainsFunc(ranks, func(r RankResult) bool { return c.value(r) != 0 })
	})
}

// known is a number, or 0 where it is not known.
func known(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// rankRows are the cells of the table of ranks. Beyond so many ranks it holds
// only the first and last, and the spread of every column.
func rankRows(ranks []RankResult) [][]string {
	const most, ends = 16, 4
	rows := [][]string{{"rank"}}
	columns := rankColumns(ranks)
	for _, c := range columns {
		rows[0] = append(rows[0], c.title)
	}
	for i, r := range ranks {
		switch {
		case len(ranks) <= most || i < ends || i >= len(ranks)-ends:
			row := []string{strconv.Itoa(r.Rank)}
			for _, c := range columns {
				row = append(row, c.format(c.value(r)))
			}
			rows = append(rows, row)
		case i == ends:
			rows = append(rows, []string{"…"})
		}
	}
	if len(ranks) > most {
		rows = append(rows, nil)
		rows = append(rows, spread(ranks, columns)...)
	}
	return rows
}

// spread is the least, the mean and the greatest value of every column.
func spread(ranks []RankResult, columns []rankColumn) [][]string {
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

// writeAligned prints rows in columns, all but the first column flush right.
func writeAligned(out *bufio.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}
