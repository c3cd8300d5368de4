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
	"psim/reports/table"
	"psim/results"
	"psim/results/rankings"
)

// WriteTable prints the best plans for people, a line each; why the first wins, how sure
// that is, and the settings of all: what is the same from run to run.
func WritePlanRanking(w io.Writer, p rankings.PlanRanking) error {
	out := table.NewPage(w)
	out.Print("%s\n", units.Plural(p.Space, "plan"))
	if len(p.Plans) == 0 {
		printNothing(p, out)
		return out.Flush()
	}
	out.Print("\n")
	out.Table(planRows(p))
	for i, why := range p.Why {
		if i == 0 {
			out.Print("\nwhy the first wins\n")
		}
		out.Print("  %s\n", whyText(why, p.Plans[0].StepTime))
	}
	out.Print("\nhow sure: %s\n", strings.Join(sure(p), "\n  "))
	out.Print("\nsettings, for psim run and the like\n")
	for i, plan := range p.Plans {
		out.Print("  %2d  --set %s\n", i+1, strings.Join(plan.Set, " --set "))
	}
	for _, warning := range p.Plans[0].Warnings {
		out.Print("warning: %s\n", warning)
	}
	return out.Flush()
}

// planRows makes a row for each of the best plans. Parts of sequences and expert groups have
// columns where some plan has them, and so have settings that vary beside the dimensions.
func planRows(p rankings.PlanRanking) [][]string {
	head := []string{"", "step", "MFU", "tokens/s", "peak memory", "most of it", "schedule", "stages", "virtual", "tensor"}
	shown := func(number func(rankings.PlanShape) int) bool {
		return slices.ContainsFunc(p.Plans, func(one rankings.RankedPlan) bool { return number(one.Plan) > 1 })
	}
	context, expert := shown(func(s rankings.PlanShape) int { return s.Context }), shown(func(s rankings.PlanShape) int { return s.Expert })
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
		row := append([]string{strconv.Itoa(i + 1)}, planCells(plan)...)
		row = append(row, s.Schedule, strconv.Itoa(s.Stages), strconv.Itoa(s.VirtualStages), strconv.Itoa(s.Tensor))
		add(&row, context, strconv.Itoa(s.Context))
		add(&row, expert, expertsText(s))
		row = append(row, strconv.Itoa(s.Data), strconv.FormatInt(s.Micro, 10), strconv.Itoa(s.Microbatches), s.Recompute, strconv.Itoa(s.Zero), map[bool]string{true: "yes", false: "no"}[s.Sequence])
		for _, key := range p.Varied {
			row = append(row, rankings.PlanPoint{Set: plan.Set}.SetValue(key))
		}
		table = append(table, row)
	}
	return table
}

// cells writes what a plan takes.
func planCells(p rankings.RankedPlan) []string {
	rate := "-"
	if p.TokensPerDevice > 0 {
		rate = units.FormatCount(int64(p.TokensPerDevice + 0.5))
	}
	return []string{units.FormatSeconds(p.StepTime), units.FormatPercent(p.MFU), rate, units.FormatBytes(p.PeakMemory()), largestPart(p)}
}

// experts writes the devices of an expert group, and those of them that divide an expert.
func expertsText(p rankings.PlanShape) string {
	if p.ExpertTensor > 1 {
		return fmt.Sprintf("%d × %d", p.Expert, p.ExpertTensor)
	}
	return strconv.Itoa(p.Expert)
}

// largestPart names what most of the highest peak is.
func largestPart(p rankings.RankedPlan) string {
	m := highestRank(p.Result).Memory
	if m == nil || memoryPartsOf(*m) == nil {
		return "-"
	}
	return memoryPartsOf(*m)[0]
}

// Counted says how many plans there are, and what became of them.
func CountPlans(p rankings.PlanRanking) string {
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
	if left := p.Space - p.Decided(); left > 0 {
		text += fmt.Sprintf("; %s not reached", units.FormatCount(int64(left)))
	}
	if p.Seconds != nil {
		text += fmt.Sprintf("; in %s", units.FormatSeconds(*p.Seconds))
	}
	return text
}

// sure says how far the answer can be trusted.
func sure(p rankings.PlanRanking) []string {
	list := []string{"proved: no other plan of these has a shorter step in psim's model"}
	if p.Gap > 0 {
		list[0] = fmt.Sprintf("not proved: a better plan may take up to %s less", units.FormatPercent(p.Gap))
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
func printNothing(p rankings.PlanRanking, out table.Page) {
	switch {
	case p.Partial && p.Decided() == 0:
		out.Print("\ninterrupted before any plan was decided\n")
		return
	case p.Partial:
		out.Print("\ninterrupted: of %s decided until then none fits in memory\n", units.Plural(p.Decided(), "plan"))
		return
	case p.Space == 0:
		out.Print("\nno plan divides network, batch and devices as asked\n")
		if p.Nothing != "" {
			out.Print("  %s\n", p.Nothing)
		}
	default:
		out.Print("\nno plan fits in memory\n")
	}
	for _, r := range p.WouldFit {
		out.Print("  with %s: --set %s (%s at most, step %s)\n", strings.Join(r.Flags, " "), strings.Join(r.Set, " --set "), units.FormatBytes(r.PeakMemory), units.FormatSeconds(r.StepTime))
	}
	switch {
	case len(p.WouldFit) > 0:
	case p.Space == 0:
		out.Print("  allow other values or schedules, or another number of devices\n")
	case p.WithinNode > 0:
		out.Print("  nor without the margin or with any trainer: take a smaller model, shorter sequences or devices with more memory\n")
	default:
		out.Print("  nor without the margin, with any trainer or with more devices: take a smaller model, shorter sequences or devices with more memory\n")
	}
	if p.WithinNode > 0 {
		out.Print("  machine.network is not given, so that no plan has more than the %s of a node; name one (psim list devices -v) to try more\n", units.Plural(p.WithinNode, "device"))
	}
}

// text says in a line where the other takes longer and where not.
func whyText(w rankings.PlanWhy, best float64) string {
	const least, most = 0.03, 5 // shares of the largest difference that are worth a word
	classes := results.SortClasses(w.Longer)
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
		parts = append(parts, sign+units.FormatSeconds(math.Abs(d))+" "+className(class))
	}
	name := map[string]string{"runner-up": "plan 2", "configuration": "the configuration's own plan"}[w.Plan]
	if parts == nil {
		return fmt.Sprintf("%s takes as long, of the same parts; ties go by their settings", name)
	}
	return fmt.Sprintf("%s takes %s longer: %s", name, units.FormatSeconds(w.StepTime-best), strings.Join(parts, ", "))
}
