package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/rankings"
)

// WritePlanRanking prints the best plans for people, a line for every layout, and what is the same in
// every search: why the first wins, how sure that is, and the settings of the first plan, or of all.
func WritePlanRanking(w io.Writer, p rankings.PlanRanking, allSettings bool) error {
	out := table.NewPage(w)
	out.Print("%s\n", units.Plural(p.Space, "plan"))
	if len(p.Plans) == 0 {
		printNothing(p, out)
		return out.Flush()
	}
	out.Print("\n")
	layouts := layoutsOf(p.Plans)
	planTable(p, layouts).Text(out)
	if len(layouts) < len(p.Plans) {
		out.Print("  a row is the best plan of a layout; others: its further plans, and the longest of their steps\n")
	}
	for i, why := range p.Why {
		if i == 0 {
			out.Print("\nwhy the first wins\n")
		}
		out.Print("  %s\n", whyText(why, p.Plans))
	}
	out.Print("\nhow sure: %s\n", strings.Join(sure(p), "\n  "))
	printSettings(out, p.Plans, allSettings)
	for _, warning := range p.Plans[0].Warnings {
		out.Print("warning: %s\n", warning)
	}
	return out.Flush()
}

// A layout is the best of the plans that divide the network alike.
type layout struct {
	rankings.RankedPlan
	place  int // in the ranking, from 1
	others int // plans of the layout after it
	last   float64
}

// layoutsOf groups plans by layout, in the order of the best of each.
func layoutsOf(plans []rankings.RankedPlan) (list []layout) {
	at := map[rankings.PlanShape]int{}
	for i, plan := range plans {
		key := plan.Plan.Layout()
		if j, known := at[key]; known {
			list[j].others++
			list[j].last = plan.StepTime
			continue
		}
		at[key] = len(list)
		list = append(list, layout{RankedPlan: plan, place: i + 1})
	}
	return list
}

// planTable makes the table of the best plans. Parts of sequences and expert groups have
// columns if some plan has them. So do settings with several values that are not dimensions.
func planTable(p rankings.PlanRanking, layouts []layout) table.Table[layout] {
	single := func(number func(rankings.PlanShape) int) bool { // whether no plan has several of something
		return !slices.ContainsFunc(p.Plans, func(one rankings.RankedPlan) bool { return number(one.Plan) > 1 })
	}
	noContext := single(func(s rankings.PlanShape) int { return s.Context })
	noExperts := single(func(s rankings.PlanShape) int { return s.Expert })
	noChances := !slices.ContainsFunc(p.Plans, func(p rankings.RankedPlan) bool { return p.ProbabilityBest != nil })
	t := table.Table[layout]{Rows: layouts, Columns: []table.Column[layout]{
		{Left: true, Cell: func(p layout) any { return p.place }},
		{Head: "step", Cell: func(p layout) any { return units.FormatSeconds(p.StepTime) }},
		{Head: "best", Hide: noChances, Cell: chanceText},
		{Head: "MFU", Cell: func(p layout) any { return units.FormatPercent(p.MFU) }},
		{Head: "tokens/s per device", Cell: func(p layout) any { return tokenRate(p.Result) }},
		{Head: "peak memory", Cell: func(p layout) any { return peakText(p.Result) }},
		{Head: "most of it", Cell: func(p layout) any { return largestPart(p.Result) }},
		{Head: "schedule", Cell: func(p layout) any { return p.Plan.Schedule }},
		{Head: "stages", Cell: func(p layout) any { return p.Plan.Stages }},
		{Head: "virtual", Cell: func(p layout) any { return p.Plan.VirtualStages }},
		{Head: "tensor", Cell: func(p layout) any { return p.Plan.Tensor }},
		{Head: "context", Hide: noContext, Cell: func(p layout) any { return p.Plan.Context }},
		{Head: "expert", Hide: noExperts, Cell: func(p layout) any { return expertsText(p.Plan) }},
		{Head: "data", Cell: func(p layout) any { return p.Plan.Data }},
		{Head: "micro", Cell: func(p layout) any { return p.Plan.Micro }},
		{Head: "M", Cell: func(p layout) any { return p.Plan.Microbatches }},
		{Head: "recompute", Cell: func(p layout) any { return p.Plan.Recompute }},
		{Head: "ZeRO", Cell: func(p layout) any { return p.Plan.Zero }},
		{Head: "sequence", Cell: func(p layout) any { return yesNo(p.Plan.Sequence) }},
	}}
	for _, key := range p.Varied {
		t.Columns = append(t.Columns, table.Column[layout]{
			Head: key[strings.LastIndex(key, ".")+1:],
			Cell: func(p layout) any { return rankings.PlanPoint{Set: p.Set}.SetValue(key) },
		})
	}
	t.Columns = append(t.Columns, table.Column[layout]{
		Head: "others", Hide: len(layouts) == len(p.Plans), Cell: func(p layout) any { return othersText(p) },
	})
	return t
}

// chanceText prints the chance that a plan is the best of the first.
func chanceText(p layout) any {
	if p.ProbabilityBest == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100**p.ProbabilityBest)
}

// othersText says how many more plans a layout has, and the longest of their steps.
func othersText(p layout) string {
	if p.others == 0 {
		return ""
	}
	return fmt.Sprintf("%d, to %s", p.others, units.FormatSeconds(p.last))
}

func yesNo(x bool) string {
	if x {
		return "yes"
	}
	return "no"
}

// tokenRate prints the tokens per second of a device.
func tokenRate(r results.Result) string {
	if r.TokensPerDevice > 0 {
		return units.FormatCount(int64(r.TokensPerDevice + 0.5))
	}
	return "-"
}

// expertsText prints the devices of an expert group, and how many of them share each expert.
func expertsText(p rankings.PlanShape) string {
	if p.ExpertTensor > 1 {
		return fmt.Sprintf("%d × %d", p.Expert, p.ExpertTensor)
	}
	return strconv.Itoa(p.Expert)
}

// largestPart names the largest part of the highest peak.
func largestPart(r results.Result) string {
	if parts := memoryParts(highestRank(r).Memory); parts != nil {
		return parts[0]
	}
	return "-"
}

// CountPlans says how many plans there are, and how many of them were simulated or discarded.
func CountPlans(p rankings.PlanRanking) string {
	count := func(n int) string { return units.FormatCount(int64(n)) }
	text := fmt.Sprintf("%s plans: %s simulated", count(p.Space), count(p.Evaluated))
	reasons := slices.SortedFunc(maps.Keys(p.PrunedBy), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.PrunedBy[b], p.PrunedBy[a]), cmp.Compare(a, b))
	})
	var discarded []string
	for _, reason := range reasons {
		discarded = append(discarded, fmt.Sprintf("%s (%s)", count(p.PrunedBy[reason]), reason))
	}
	if len(discarded) > 0 {
		text += "; discarded without that: " + strings.Join(discarded, ", ")
	}
	if left := p.Space - p.Decided(); left > 0 {
		text += fmt.Sprintf("; %s not reached", count(left))
	}
	if p.Seconds != nil {
		text += fmt.Sprintf("; in %s", units.FormatSeconds(*p.Seconds))
	}
	return text
}

// sure says how reliable the ranking is.
func sure(p rankings.PlanRanking) []string {
	list := []string{"proved: no other plan of these has a shorter step in psim's model"}
	if p.Gap > 0 {
		list[0] = fmt.Sprintf("not proved: a better plan may take up to %s less", units.FormatPercent(p.Gap))
	}
	if n := p.PrunedBy[rankings.TooLarge]; n > 0 {
		list[0] += fmt.Sprintf("; the graphs of %s are too large to simulate here", units.Plural(n, "plan"))
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
	if p.Plans[0].ProbabilityBest != nil {
		list = append(list, fmt.Sprintf("of the first %d plans the first has a chance of %.0f %% to be the fastest "+
			"when measured; column best has these chances",
			min(len(p.Plans), rankings.Rivals), 100**p.Plans[0].ProbabilityBest))
	}
	if text := intervalText(p.Plans[0].Result); text != "" {
		list = append(list, "its step: "+text)
	}
	return list
}

// printNothing explains why there is no plan, and prints what would fit.
func printNothing(p rankings.PlanRanking, out table.Page) {
	switch {
	case p.Partial && p.Decided() == 0:
		out.Print("\ninterrupted before any plan was decided\n")
		return
	case p.Partial:
		out.Print("\ninterrupted: of %s decided so far, none fits in memory\n", units.Plural(p.Decided(), "plan"))
		return
	case p.Space == 0:
		out.Print("\nno plan divides network, batch and devices as asked\n")
		if p.Nothing != "" {
			out.Print("  %s\n", p.Nothing)
		}
	case p.PrunedBy[rankings.TooLarge] > 0:
		out.Print("\nno plan that can be simulated here fits in memory; the graphs of %s need more memory than this "+
			"computer has free\n  take a smaller batch.global or fewer devices\n",
			units.Plural(p.PrunedBy[rankings.TooLarge], "plan"))
		return
	default:
		out.Print("\nno plan fits in memory\n")
	}
	for _, r := range p.WouldFit {
		verdict := ""
		if r.Close {
			verdict = results.Close + ", "
		}
		out.Print("  with %s: --set %s (%s%s at most, step %s)\n", strings.Join(r.Flags, " "),
			strings.Join(r.Set, " --set "), verdict, units.FormatBytes(r.PeakMemory), units.FormatSeconds(r.StepTime))
	}
	switch {
	case len(p.WouldFit) > 0:
	case p.Space == 0:
		out.Print("  allow other values or schedules, or another number of devices\n")
	case p.WithinNode > 0:
		out.Print("  nor without the margin or with any trainer: %s\n", instead)
	default:
		out.Print("  nor without the margin, with any trainer or with more devices: %s\n", instead)
	}
	if p.WithinNode > 0 {
		out.Print("  machine.network is not given, so that no plan has more than the %s of a node; "+
			"name one (psim list devices -v) to try more\n", units.Plural(p.WithinNode, "device"))
	}
}

// instead says what to change where nothing fits.
const instead = "take a smaller model, shorter sequences or devices with more memory"
