package reports

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"psim/internal/files"
	"psim/internal/units"
)

// A Plan is one way to run an experiment: the settings that make it, as --set
// takes them, and what is predicted for it.
type Plan struct {
	Result
	Settings []string `json:"settings"` // KEY=VALUE, as --set takes them
}

// A Ranking is the outcome of psim search, best first: those that fit in memory by
// their step time, then the others by how much they need.
type Ranking struct {
	Plans     []Plan    `json:"plans"`              // results with the settings that make them, best first
	Evaluated int       `json:"evaluated"`          // plans that were simulated
	Pruned    int       `json:"pruned"`             // plans that were not, because their parameters alone do not fit
	LeftOut   []LeftOut `json:"left_out,omitempty"` // schedules that have no plan
	Partial   bool      `json:"partial,omitempty"`  // the search was interrupted
	// Time that the search took: on stdout alone, in no file.
	Seconds *float64 `json:"seconds,omitempty" unit:"s"`
}

// LeftOut says why a schedule has no plan.
type LeftOut struct {
	Schedule string `json:"schedule"` // its name
	Reason   string `json:"reason"`   // why it has no plan
}

// Sort puts the best plan first. Of plans with equal times, the one that needs
// less memory comes first.
func (p Ranking) Sort() {
	slices.SortStableFunc(p.Plans, func(a, b Plan) int {
		switch {
		case a.Fits() != b.Fits():
			return map[bool]int{true: -1, false: 1}[a.Fits()]
		case a.Fits():
			return cmp.Or(cmp.Compare(a.StepTime, b.StepTime), cmp.Compare(a.PeakMemory(), b.PeakMemory()))
		}
		return cmp.Or(cmp.Compare(a.PeakMemory(), b.PeakMemory()), cmp.Compare(a.StepTime, b.StepTime))
	})
}

// WriteJSON writes the plans as an indented JSON object.
func (p Ranking) WriteJSON(w io.Writer) error {
	list := make([]Plan, len(p.Plans))
	for i, plan := range p.Plans {
		list[i] = Plan{plan.Result.writable(), plan.Settings}
	}
	p.Plans = list
	return files.WriteJSON(w, p)
}

// WriteTable prints the first of the plans for people, and how to run the best.
func (p Ranking) WriteTable(w io.Writer, rows int) error {
	if len(p.Plans) == 0 {
		_, err := fmt.Fprintf(w, "no plan fits: of all %d, parameters, gradients and optimizer state alone need more than a rank may hold, its memory less machine.memory_margin; psim run says what would fit\n", p.Pruned)
		return err
	}
	best, out := p.Plans[0], newPage(w)
	table := [][]string{{"schedule", "virtual", "microbatches", "step time", "bubble", "of the span", "peak memory", "fits"}}
	for _, plan := range p.Plans[:min(rows, len(p.Plans))] {
		table = append(table, []string{
			plan.scheduleText(), strconv.Itoa(plan.VirtualStages), strconv.Itoa(plan.Microbatches), duration(plan.StepTime),
			percent(plan.Bubble.Makespan), percent(plan.Bubble.Span), units.FormatBytes(plan.PeakMemory()),
			plan.fits(),
		})
	}
	out.table(table)
	if more := len(p.Plans) - rows; more > 0 {
		out.print("  … and %d more\n", more)
	}
	out.print("\n%s --set %s\n", p.verdict(), strings.Join(best.Settings, " --set "))
	for _, warning := range best.Warnings {
		out.print("warning: %s\n", warning)
	}
	if p.Partial {
		out.print("warning: the search was interrupted; there may be better plans\n")
	}
	if len(p.LeftOut) > 0 {
		var names []string
		for _, l := range p.LeftOut {
			names = append(names, l.Schedule)
		}
		out.print("not possible here (--json says why): %s\n", strings.Join(names, ", "))
	}
	return out.Flush()
}

// verdict says what the first plan is.
func (p Ranking) verdict() string {
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
func (r Result) fits() string {
	switch {
	case !r.FitsMemory:
		return "no"
	case r.MemoryVerdict == Close:
		return Close
	}
	return "yes"
}

// ReadPlans reads a plans.json.
func ReadPlans(r io.Reader) (Ranking, error) {
	var p Ranking
	if err := readJSON(r, mostJSON, &p); err != nil {
		return p, err
	}
	if p.Plans == nil {
		return p, errors.New("plans is missing")
	}
	for i, plan := range p.Plans {
		if err := plan.validate(); err != nil {
			return p, fmt.Errorf("plans[%d]: %w", i, err)
		}
	}
	return p, nil
}
