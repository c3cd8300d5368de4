package reports

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// WriteResultCSV writes a row per rank, in seconds and bytes. The two parts of the idle time
// are columns only if they are known. Of several runs it writes the ranks of all, with the
// schedule in the last column.
func WriteResultCSV(w io.Writer, r results.Result) error {
	type rank struct {
		results.RankResult
		dispatch, waiting float64
		schedule          string
	}
	runs := r.Runs
	if runs == nil {
		runs = []results.Result{r}
	}
	var ranks []rank
	for _, run := range runs {
		for _, x := range run.Ranks {
			dispatch, waiting := x.IdleParts()
			ranks = append(ranks, rank{x, dispatch, waiting, run.Schedule})
		}
	}
	unsplit := !slices.ContainsFunc(r.Ranks, func(x results.RankResult) bool {
		return x.Dispatch != nil || x.Waiting != nil
	})
	return table.Table[rank]{Rows: ranks, Columns: []table.Column[rank]{
		{Head: "rank", Cell: func(x rank) any { return x.Rank }},
		{Head: "compute_s", Cell: func(x rank) any { return x.Compute }},
		{Head: "communication_s", Cell: func(x rank) any { return x.Communication }},
		{Head: "exposed_communication_s", Cell: func(x rank) any { return x.ExposedCommunication }},
		{Head: "optimizer_s", Cell: func(x rank) any { return x.Optimizer }},
		{Head: "idle_s", Cell: func(x rank) any { return x.Idle }},
		{Head: "peak_memory_bytes", Cell: func(x rank) any { return x.PeakMemory }},
		{Head: "persistent_memory_bytes", Cell: func(x rank) any { return x.PersistentMemory }},
		{Head: "peak_in_flight", Cell: func(x rank) any { return x.PeakInFlight }},
		{Head: "sent_bytes", Cell: func(x rank) any { return x.SentBytes }},
		{Head: "dispatch_s", Hide: unsplit, Cell: func(x rank) any { return x.dispatch }},
		{Head: "waiting_s", Hide: unsplit, Cell: func(x rank) any { return x.waiting }},
		{Head: "schedule", Hide: r.Runs == nil, Cell: func(x rank) any { return x.schedule }},
	}}.CSV(w)
}

// A rankRow is a row of the table of ranks: a rank, or the least, mean or greatest of all.
type rankRow struct {
	label string
	of    []results.RankResult
	from  func([]float64) float64 // the number of the row from those of its ranks
}

// rankTable makes the table of ranks. Below an excerpt of many ranks it has the spread of
// every column.
func rankTable(ranks []results.RankResult) table.Table[rankRow] {
	t := table.Table[rankRow]{
		Columns: []table.Column[rankRow]{{Head: "rank", Left: true, Cell: func(r rankRow) any { return r.label }}},
		Excerpt: true,
		Summary: []rankRow{{"min", ranks, least}, {"mean", ranks, units.Mean}, {"max", ranks, greatest}},
	}
	for i, r := range ranks {
		t.Rows = append(t.Rows, rankRow{strconv.Itoa(r.Rank), ranks[i : i+1], least})
	}
	for _, c := range rankColumns() {
		t.Columns = append(t.Columns, c.column(ranks))
	}
	return t
}

func least(list []float64) float64    { return slices.Min(list) }
func greatest(list []float64) float64 { return slices.Max(list) }

// A rankColumn is a number of every rank.
type rankColumn struct {
	head     string
	optional bool // hidden if it is 0 on all ranks
	value    func(results.RankResult) float64
	format   func(float64) string
}

// column makes a column of the table.
func (c rankColumn) column(ranks []results.RankResult) table.Column[rankRow] {
	zero := !slices.ContainsFunc(ranks, func(r results.RankResult) bool { return c.value(r) != 0 })
	return table.Column[rankRow]{Head: c.head, Hide: c.optional && zero, Cell: func(row rankRow) any {
		var list []float64
		for _, r := range row.of {
			list = append(list, c.value(r))
		}
		return c.format(row.from(list))
	}}
}

func rankColumns() []rankColumn {
	bytes := func(x float64) string { return units.FormatBytes(int64(math.Round(x))) }
	count := func(x float64) string { return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64) }
	seconds := units.FormatSeconds
	return []rankColumn{
		{"samples", true, func(r results.RankResult) float64 { return float64(r.Samples) }, count},
		{"compute", false, func(r results.RankResult) float64 { return r.Compute }, seconds},
		{"communication", false, func(r results.RankResult) float64 { return r.Communication }, seconds},
		{"exposed", false, func(r results.RankResult) float64 { return r.ExposedCommunication }, seconds},
		{"optimizer", true, func(r results.RankResult) float64 { return r.Optimizer }, seconds},
		{"idle", false, func(r results.RankResult) float64 { return r.Idle }, seconds},
		{"waiting", true, func(r results.RankResult) float64 { _, x := r.IdleParts(); return x }, seconds},
		{"dispatch", true, func(r results.RankResult) float64 { x, _ := r.IdleParts(); return x }, seconds},
		{"peak memory", true, func(r results.RankResult) float64 { return float64(r.PeakMemory) }, bytes},
		{"in flight", true, func(r results.RankResult) float64 { return float64(r.PeakInFlight) }, count},
		{"sent", true, func(r results.RankResult) float64 { return float64(r.SentBytes) }, bytes},
	}
}

// distinctRanks returns the ranks to show. If all replicas are alike it returns the ranks of one
// and the number of replicas, otherwise all ranks and 1.
func distinctRanks(r results.Result) (ranks []results.RankResult, replicas int) {
	replicas = r.DataParallel
	if replicas < 2 || len(r.Ranks)%replicas != 0 {
		return r.Ranks, 1
	}
	n := len(r.Ranks) / replicas
	for i := n; i < len(r.Ranks); i++ {
		if valuesOf(r.Ranks[i]) != valuesOf(r.Ranks[i%n]) {
			return r.Ranks, 1
		}
	}
	return r.Ranks[:n], replicas
}

// A rankValues holds the numbers of a rank in a form that can be compared.
type rankValues struct {
	results.RankResult
	memory            results.MemoryBytes
	dispatch, waiting float64
}

func valuesOf(r results.RankResult) rankValues {
	dispatch, waiting := r.IdleParts()
	v := rankValues{r, results.MemoryBytes{}, dispatch, waiting}
	if r.Memory != nil {
		v.memory = *r.Memory
	}
	v.Rank, v.Memory, v.Dispatch, v.Waiting = 0, nil, nil, nil
	return v
}

// rankText names the first n ranks.
func rankText(n int) string {
	if n == 1 {
		return "rank 0"
	}
	return fmt.Sprintf("ranks 0–%d", n-1)
}
