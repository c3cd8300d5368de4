package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/rankings"
)

// WriteRanking prints the first plans of a ranking for people, and how to run the best.
func WriteRanking(w io.Writer, p rankings.Ranking, rows int) error {
	out := table.NewPage(w)
	if len(p.Plans) == 0 {
		out.Print("no plan fits: of all %d, parameters, gradients and optimizer state alone need more than "+
			"a rank may hold, its memory less machine.memory_margin; psim run says what would fit\n", p.Pruned)
		return out.Flush()
	}
	candidateTable(p.Plans[:min(rows, len(p.Plans))]).Text(out)
	if more := len(p.Plans) - rows; more > 0 {
		out.Print("  … and %d more\n", more)
	}
	best := p.Plans[0]
	out.Print("\n%s --set %s\n", rankingVerdict(p), strings.Join(best.Set, " --set "))
	for _, warning := range best.Warnings {
		out.Print("warning: %s\n", warning)
	}
	if p.Partial {
		out.Print("warning: the search was interrupted; there may be better plans\n")
	}
	if len(p.LeftOut) > 0 {
		var names []string
		for _, l := range p.LeftOut {
			names = append(names, l.Schedule)
		}
		out.Print("not possible here (--json says why): %s\n", strings.Join(names, ", "))
	}
	return out.Flush()
}

// candidateTable makes the table of the plans.
func candidateTable(plans []rankings.Candidate) table.Table[rankings.Candidate] {
	type plan = rankings.Candidate
	result := func(p plan) results.Result { return p.Result }
	divided := func(p plan) bool { return p.TimesDividedBy != 0 }
	return table.Table[plan]{Rows: plans, Columns: []table.Column[plan]{
		{Head: "schedule", Left: true, Cell: func(p plan) any { return p.ScheduleText() }},
		{Head: "virtual", Cell: func(p plan) any { return p.VirtualStages }},
		{Head: "microbatches", Cell: func(p plan) any { return p.Microbatches }},
		{Head: "step time", Cell: func(p plan) any { return units.FormatSeconds(p.StepTime) }},
		{Head: bubbleHead(result, plans), Cell: func(p plan) any { return units.FormatPercent(p.Bubble.Makespan) }},
		{Head: "of the span", Cell: func(p plan) any { return units.FormatPercent(p.Bubble.Span) }},
		{Head: "peak memory", Cell: func(p plan) any { return peakText(p.Result) }},
		{Head: "fits", Cell: func(p plan) any { return fitsText(p.Result) }},
		{Left: true, Hide: !slices.ContainsFunc(plans, divided), Cell: func(p plan) any { return dividedText(p) }},
	}}
}

// dividedText says what a plan's settings do to [times], which are of one stage.
func dividedText(p rankings.Candidate) string {
	switch by := p.TimesDividedBy; {
	case by == 0:
		return ""
	case by < 1:
		return "times multiplied by " + digits(1/by, 3)
	default:
		return "times divided by " + digits(by, 3)
	}
}

// rankingVerdict says what the first plan is.
func rankingVerdict(p rankings.Ranking) string {
	const least = "none fits in memory; the least is needed with"
	switch {
	case p.Plans[0].Fits():
		return "the best:"
	case p.Partial:
		decided := units.Plural(p.Evaluated+p.Pruned, "plan")
		return fmt.Sprintf("interrupted: of %s decided until then %s", decided, least)
	}
	return least
}

// peakText returns the peak memory of a result, if any memory was modelled.
func peakText(r results.Result) string {
	if !r.UsesMemory() {
		return "–"
	}
	return units.FormatBytes(r.PeakMemory())
}

// fitsText says in a word whether a result fits in memory. Without a limit that is unknown.
func fitsText(r results.Result) string {
	switch {
	case !r.FitsMemory:
		return "no"
	case r.MemoryVerdict == results.Close:
		return results.Close
	case r.MemoryVerdict == "":
		return "unknown"
	}
	return "yes"
}
