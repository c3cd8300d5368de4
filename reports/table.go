package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// WriteTable prints a result for people: what was run, the headline numbers,
// a row per rank and per run, and the warnings. Of more than 16 ranks it shows the first
// and last four, and the least, mean and greatest value of every column.
func WriteTable(w io.Writer, r results.Result) error {
	out := table.NewPage(w)
	out.Print("%s\n", headline(r))
	for _, line := range slices.Concat([][2]string{
		{"step time", stepTime(r)},
		{"predicted", prediction(r)},
		{"makespan", units.FormatSeconds(r.Makespan)},
		{"bubble", bubble(r)},
		{"steady state", steadyState(r)},
		{"search", searchText(r.Search)},
		{"critical path", criticalPathText(r.CriticalPath, r.StepTime)},
		{"throughput", throughput(r.Throughput)},
	}, epochRows(r.Epochs), [][2]string{
		{"parameters", parameters(r)}, {"MFU", utilization(r)},
		{"unsynchronised", unwaitedRate(r)},
		{"validation", validation(r)},
		{"memory", memoryVerdict(r)},
		{"at that peak", memoryParts(r)},
		{"runs", attempts(r)},
		{"process", heapGrowth(r)},
		{"backend", backend(r)}, {"processes", processes(r)},
		{"checks", checks(r)},
	}) {
		if line[1] != "" {
			out.Print("  %-15s%s\n", line[0], line[1])
		}
	}
	out.Print("\n")
	ranks, replicas := distinct(r)
	out.Table(rankRows(ranks))
	if replicas > 1 {
		out.Print("  %s of %d replicas, all alike\n", rankText(len(ranks)), replicas)
	}
	if len(r.Runs) > 0 {
		out.Print("\n")
		out.Table(runRows(r.Runs))
	}
	out.Warn(r.Warnings)
	return out.Flush()
}

func headline(r results.Result) string {
	parts := []string{units.Plural(r.Stages, "stage")}
	if r.VirtualStages > 1 {
		parts[0] += fmt.Sprintf(" × %d", r.VirtualStages)
	}
	parts = append(parts, units.Plural(r.Microbatches, "microbatch"))
	if !trains(r) {
		parts = []string{units.Plural(len(r.Ranks), "rank")}
	}
	if r.DataParallel > 1 {
		parts = append(parts, fmt.Sprintf("%d data-parallel replicas%s", r.DataParallel, sharesText(r)))
	}
	if r.TensorParallel > 1 {
		parts = append(parts, fmt.Sprintf("tensor groups of %d", r.TensorParallel))
	}
	if r.ContextParallel > 1 {
		parts = append(parts, fmt.Sprintf("sequences in %d parts", r.ContextParallel))
	}
	if r.ExpertParallel > 1 {
		parts = append(parts, fmt.Sprintf("expert groups of %d", r.ExpertParallel))
	}
	if r.PerRank() > 1 {
		parts[len(parts)-1] += fmt.Sprintf(" (%d devices)", r.PerRank()*len(r.Ranks))
	}
	return fmt.Sprintf("%s: %s, %s", results.FullName(r.Name, r.ScheduleText()), strings.Join(parts, ", "), r.Kind)
}

// sharesText says what the replicas' shares of the samples are, where these differ.
func sharesText(r results.Result) string {
	if len(r.Ranks) == 0 || r.Ranks[0].Samples == 0 {
		return ""
	}
	var list []string
	least, most := r.Ranks[0].Samples, r.Ranks[0].Samples
	for i := 0; i < len(r.Ranks); i += max(1, len(r.Ranks)/r.DataParallel) {
		n := r.Ranks[i].Samples
		list, least, most = append(list, strconv.FormatInt(n, 10)), min(least, n), max(most, n)
	}
	if len(list) > 8 {
		return fmt.Sprintf(" of %d to %d samples", least, most)
	}
	last := len(list) - 1
	return fmt.Sprintf(" of %s and %s samples", strings.Join(list[:last], ", "), list[last])
}

// startup tells how much of the step is the broadcast before it; nothing without one.
func startup(r results.Result) string {
	if r.Startup == 0 {
		return ""
	}
	return fmt.Sprintf("; %s of it the broadcast of the parameters, once in a training: throughput and MFU leave it out", units.FormatSeconds(r.Startup))
}

// bubble tells the bubble, and nothing where nothing is computed.
func bubble(r results.Result) string {
	if !trains(r) || r.Bubble.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s of the makespan, %s of the longest span", units.FormatPercent(r.Bubble.Makespan), units.FormatPercent(r.Bubble.Span))
}

// steadyState tells the pace of a pipeline that is never flushed; nothing for others.
func steadyState(r results.Result) string {
	if r.SteadyMicrobatch == 0 {
		return ""
	}
	return units.FormatSeconds(r.SteadyMicrobatch) + " per microbatch, without fill and drain"
}

// searchText says how close to the best an order is that was searched for; nothing for
// others.
func searchText(s *results.FoundOrder) string {
	switch {
	case s == nil:
		return ""
	case s.Gap <= 0:
		return "longest span " + units.FormatSeconds(s.Span) + ", which no order is below"
	}
	return fmt.Sprintf("longest span %s, at most %s above the best (no order is below %s)", units.FormatSeconds(s.Span), units.FormatPercent(s.Gap), units.FormatSeconds(s.LowerBound))
}

// trains reports whether the run trains anything. A collective by itself
// has neither stages nor a bubble.
func trains(r results.Result) bool {
	return slices.ContainsFunc(r.Ranks, func(rank results.RankResult) bool { return rank.PeakInFlight > 0 })
}

// throughput tells what is known of it.
func throughput(t results.Throughput) string {
	var parts []string
	if t.Samples > 0 {
		parts = append(parts, units.FormatPerSecond(t.Samples)+" samples/s")
	}
	if t.Tokens > 0 {
		parts = append(parts, units.FormatPerSecond(t.Tokens)+" tokens/s")
	}
	return strings.Join(parts, ", ")
}

// memoryVerdict says whether memory suffices, and the highest peak. It is empty
// where no memory was modelled.
func memoryVerdict(r results.Result) string {
	highest := highestRank(r)
	peak := "the highest peak is " + units.FormatBytes(highest.PeakMemory)
	whole := units.FormatBytes(int64(float64(highest.MemoryCapacity) / (1 - r.MemoryMargin)))
	switch {
	case highest.MemoryCapacity == 0:
	case r.MemoryMargin == 0 || !r.FitsMemory:
		peak += " of " + whole
	case r.MemoryVerdict == results.Close:
		peak += fmt.Sprintf(" of %s, which is within the margin of %s", whole, units.FormatPercent(r.MemoryMargin))
	default:
		peak += fmt.Sprintf(" of %s (a margin of %s stays free)", units.FormatBytes(highest.MemoryCapacity), units.FormatPercent(r.MemoryMargin))
	}
	peak += fmt.Sprintf(", on rank %d", highest.Rank)
	known := highest.MemoryCapacity > 0
	if len(r.Nodes) > 0 {
		known = true
		n := slices.MaxFunc(r.Nodes, func(a, b results.NodeResult) int { return cmp.Compare(a.PeakMemory, b.PeakMemory) })
		peak += fmt.Sprintf("; node %d needs %s for %s and has %s", n.Node, units.FormatBytes(n.PeakMemory), units.Plural(n.Devices, "device"), units.FormatBytes(int64(float64(n.MemoryCapacity)/(1-r.MemoryMargin))))
	}
	switch {
	case highest.PeakMemory == 0:
		return ""
	case !r.FitsMemory:
		return results.DoesNotFit + "; " + peak
	case r.MemoryVerdict == results.Close:
		return results.Close + "; " + peak
	case known:
		return "fits; " + peak
	}
	return peak + " (no limit known)"
}

// text says what the longest chain of tasks is made of, leaving out what it
// has none of; nothing where it is not known.
func criticalPathText(c *results.CriticalPath, step float64) string {
	if c == nil || step <= 0 {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		name    string
		seconds float64
	}{{"compute", c.Compute}, {"communication", c.Communication}, {"dispatch", c.Dispatch}, {"latency", c.Latency}, {"optimizer", c.Optimizer}} {
		if p.seconds > 0 {
			parts = append(parts, units.FormatPercent(p.seconds/step)+" "+p.name)
		}
	}
	return strings.Join(parts, ", ")
}
