package reports

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/rankings"
)

// WriteTable prints the first of the plans for people, and how to run the best.
func WriteRanking(w io.Writer, p rankings.Ranking, rows int) error {
	if len(p.Plans) == 0 {
		_, err := fmt.Fprintf(w, "no plan fits: of all %d, parameters, gradients and optimizer state alone need more than a rank may hold, its memory less machine.memory_margin; psim run says what would fit\n", p.Pruned)
		return err
	}
	best, out := p.Plans[0], table.NewPage(w)
	table := [][]string{{"schedule", "virtual", "microbatches", "step time", "bubble", "of the span", "peak memory", "fits"}}
	for _, plan := range p.Plans[:min(rows, len(p.Plans))] {
		table = append(table, []string{
			plan.ScheduleText(), strconv.Itoa(plan.VirtualStages), strconv.Itoa(plan.Microbatches), units.FormatSeconds(plan.StepTime),
			units.FormatPercent(plan.Bubble.Makespan), units.FormatPercent(plan.Bubble.Span), units.FormatBytes(plan.PeakMemory()),
			fitsText(plan.Result),
		})
	}
	out.Table(table)
	if more := len(p.Plans) - rows; more > 0 {
		out.Print("  … and %d more\n", more)
	}
	out.Print("\n%s --set %s\n", rankingVerdict(p), strings.Join(best.Settings, " --set "))
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

// verdict says what the first plan is.
func rankingVerdict(p rankings.Ranking) string {
	const least = "none fits in memory; the least is needed with"
	switch {
	case p.Plans[0].Fits():
		return "the best:"
	case p.Partial:
		return fmt.Sprintf("interrupted: of %s decided until then %s", units.Plural(p.Evaluated+p.Pruned, "plan"), least)
	}
	return least
}

// fits says in a word whether a result fits.
func fitsText(r results.Result) string {
	switch {
	case !r.FitsMemory:
		return "no"
	case r.MemoryVerdict == results.Close:
		return results.Close
	}
	return "yes"
}
