package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
)

// WriteTable prints the best plans for people, a line each; why the first wins, how sure
// that is, and the settings of all: what is the same from run to run.
func (p PlanRanking) WriteTable(w io.Writer) error {
	out := newPage(w)
	out.print("%s\n", units.Plural(p.Space, "plan"))
	if len(p.Plans) == 0 {
		p.printNothing(out)
		return out.Flush()
	}
	out.print("\n")
	out.table(p.rows())
	for i, why := range p.Why {
		if i == 0 {
			out.print("\nwhy the first wins\n")
		}
		out.print("  %s\n", why.text(p.Plans[0].StepTime))
	}
	out.print("\nhow sure: %s\n", strings.Join(p.sure(), "\n  "))
	out.print("\nsettings, for psim run and the like\n")
	for i, plan := range p.Plans {
		out.print("  %2d  --set %s\n", i+1, strings.Join(plan.Set, " --set "))
	}
	for _, warning := range p.Plans[0].Warnings {
		out.print("warning: %s\n", warning)
	}
	return out.Flush()
}

// rows makes a row for each of the best plans. Parts of sequences and expert groups have
// columns where some plan has them, and so have settings that vary beside the dimensions.
func (p PlanRanking) rows() [][]string {
	head := []string{"", "step", "MFU", "tokens/s", "peak memory", "most of it", "schedule", "stages", "virtual", "tensor"}
	shown := func(number func(PlanShape) int) bool {
		return slices.ContainsFunc(p.Plans, func(one RankedPlan) bool { return number(one.Plan) > 1 })
	}
	context, expert := shown(func(s PlanShape) int { return s.Context }), shown(func(s PlanShape) int { return s.Expert })
	add := func(row *[]string, when bool, cell string) {
		if when {
			*row = append(*row, cell)
		}
	}
	add(&head, context, "context")
	add(&head, expert, "expert")
	head = append(head, "data", "micro", "M", "recompute", "ZeRO", "sequence")
	for _, key := range p.Varied {
		head = append(head, key[strings.LastIndex(key, ".")+1:])
	}
	table := [][]string{head}
	for i, plan := range p.Plans {
		s := plan.Plan
		row := append([]string{strconv.Itoa(i + 1)}, plan.cells()...)
		row = append(row, s.Schedule, strconv.Itoa(s.Stages), strconv.Itoa(s.VirtualStages), strconv.Itoa(s.Tensor))
		add(&row, context, strconv.Itoa(s.Context))
		add(&row, expert, s.experts())
		row = append(row, strconv.Itoa(s.Data), strconv.FormatInt(s.Micro, 10), strconv.Itoa(s.Microbatches), s.Recompute, strconv.Itoa(s.Zero), map[bool]string{true: "yes", false: "no"}[s.Sequence])
		for _, key := range p.Varied {
			row = append(row, PlanPoint{Set: plan.Set}.value(key))
		}
		table = append(table, row)
	}
	return table
}

// cells writes what a plan takes.
func (p RankedPlan) cells() []string {
	rate := "-"
	if p.TokensPerDevice > 0 {
		rate = units.FormatCount(int64(p.TokensPerDevice + 0.5))
	}
	return []string{duration(p.StepTime), percent(p.MFU), rate, units.FormatBytes(p.PeakMemory()), p.largestPart()}
}

// experts writes the devices of an expert group, and those of them that divide an expert.
func (p PlanShape) experts() string {
	if p.ExpertTensor > 1 {
		return fmt.Sprintf("%d × %d", p.Expert, p.ExpertTensor)
	}
	return strconv.Itoa(p.Expert)
}

// largestPart names what most of the highest peak is.
func (p RankedPlan) largestPart() string {
	m := highestRank(p.Result).Memory
	if m == nil || m.parts() == nil {
		return "-"
	}
	return m.parts()[0]
}

// Counted says how many plans there are, and what became of them.
func (p PlanRanking) Counted() string {
	text := fmt.Sprintf("%s plans: %s simulated", units.FormatCount(int64(p.Space)), units.FormatCount(int64(p.Evaluated)))
	reasons, discarded := []string{}, []string{}
	for reason := range p.PrunedBy {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int { return cmp.Or(cmp.Compare(p.PrunedBy[b], p.PrunedBy[a]), cmp.Compare(a, b)) })
	for _, reason := range reasons {
		discarded = append(discarded, fmt.Sprintf("%s (%s)", units.FormatCount(int64(p.PrunedBy[reason])), reason))
	}
	if len(discarded) > 0 {
		text += "; discarded without that: " + strings.Join(discarded, ", ")
	}
	if left := p.Space - p.decided(); left > 0 {
		text += fmt.Sprintf("; %s not reached", units.FormatCount(int64(left)))
	}
	if p.Seconds != nil {
		text += fmt.Sprintf("; in %s", duration(*p.Seconds))
	}
	return text
}

// sure says how far the answer can be trusted.
func (p PlanRanking) sure() []string {
	list := []string{"proved: no other plan of these has a shorter step in psim's model"}
	if p.Gap > 0 {
		list[0] = fmt.Sprintf("not proved: a better plan may take up to %s less", percent(p.Gap))
	}
	if p.Partial {
		list[0] = "interrupted: " + list[0]
	}
	if len(p.Plans) > 1 {
		longer := fmt.Sprintf("%.2f %% longer", 100*(p.Plans[1].StepTime/p.Plans[0].StepTime-1))
		if strings.HasPrefix(longer, "0.00 ") {
			longer = "as long"
		}
		list = append(list, "the runner-up takes "+longer)
	}
	if m := p.Plans[0].MemoryMargin; m > 0 {
		list = append(list, fmt.Sprintf("memory: all plans leave %.0f %% of it free", 100*m))
	}
	if a := p.Accuracy; a != nil {
		text := a.Text()
		if a.Rows > 0 {
			text += ": plans closer than that may change places"
		}
		list = append(list, text)
	}
	return list
}

// printNothing says what would fit where nothing does.
func (p PlanRanking) printNothing(out page) {
	switch {
	case p.Partial && p.decided() == 0:
		out.print("\ninterrupted before any plan was decided\n")
		return
	case p.Partial:
		out.print("\ninterrupted: of %s decided until then none fits in memory\n", units.Plural(p.decided(), "plan"))
		return
	case p.Space == 0:
		out.print("\nno plan divides network, batch and devices as asked\n")
		if p.Nothing != "" {
			out.print("  %s\n", p.Nothing)
		}
	default:
		out.print("\nno plan fits in memory\n")
	}
	for _, r := range p.WouldFit {
		out.print("  with %s: --set %s (%s at most, step %s)\n", strings.Join(r.Flags, " "), strings.Join(r.Set, " --set "), units.FormatBytes(r.PeakMemory), duration(r.StepTime))
	}
	switch {
	case len(p.WouldFit) > 0:
	case p.Space == 0:
		out.print("  allow other values or schedules, or another number of devices\n")
	case p.WithinNode > 0:
		out.print("  nor without the margin or with any trainer: take a smaller model, shorter sequences or devices with more memory\n")
	default:
		out.print("  nor without the margin, with any trainer or with more devices: take a smaller model, shorter sequences or devices with more memory\n")
	}
	if p.WithinNode > 0 {
		out.print("  machine.network is not given, so that no plan has more than the %s of a node; name one (psim list devices -v) to try more\n", units.Plural(p.WithinNode, "device"))
	}
}

// text says in a line where the other takes longer and where not.
func (w PlanWhy) text(best float64) string {
	const least, most = 0.03, 5 // shares of the largest difference that are worth a word
	classes := classesOf(w.Longer)
	slices.SortStableFunc(classes, func(a, b string) int { return cmp.Compare(math.Abs(w.Longer[b]), math.Abs(w.Longer[a])) })
	var parts []string
	for _, class := range classes[:min(most, len(classes))] {
		d := w.Longer[class]
		if math.Abs(d) < least*math.Abs(w.Longer[classes[0]]) {
			break
		}
		sign := "+"
		if d < 0 {
			sign = "−"
		}
		parts = append(parts, sign+duration(math.Abs(d))+" "+className(class))
	}
	name := map[string]string{"runner-up": "plan 2", "configuration": "the configuration's own plan"}[w.Plan]
	if parts == nil {
		return fmt.Sprintf("%s takes as long, of the same parts; ties go by their settings", name)
	}
	return fmt.Sprintf("%s takes %s longer: %s", name, duration(w.StepTime-best), strings.Join(parts, ", "))
}
