package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
)

// WriteTable prints a result for people: what was run, the headline numbers,
// a row per rank and per run, and the warnings. Of more than 16 ranks it shows the first
// and last four, and the least, mean and greatest value of every column.
func WriteTable(w io.Writer, r Result) error {
	out := newPage(w)
	out.print("%s\n", headline(r))
	for _, line := range slices.Concat([][2]string{
		{"step time", stepTime(r)},
		{"predicted", prediction(r)},
		{"makespan", duration(r.Makespan)},
		{"bubble", bubble(r)},
		{"steady state", steadyState(r)},
		{"search", r.Search.text()},
		{"critical path", r.CriticalPath.text(r.StepTime)},
		{"throughput", throughput(r.Throughput)},
	}, r.Epochs.rows(), [][2]string{
		{"parameters", parameters(r)}, {"MFU", utilization(r)},
		{"unsynchronised", courseRate(r)},
		{"validation", validation(r)},
		{"memory", memoryVerdict(r)},
		{"at that peak", memoryParts(r)},
		{"runs", attempts(r)},
		{"process", heapGrowth(r)},
		{"backend", backend(r)}, {"processes", processes(r)},
		{"checks", checks(r)},
	}) {
		if line[1] != "" {
			out.print("  %-15s%s\n", line[0], line[1])
		}
	}
	out.print("\n")
	ranks, replicas := distinct(r)
	out.table(rankRows(ranks))
	if replicas > 1 {
		out.print("  %s of %d replicas, all alike\n", rankText(len(ranks)), replicas)
	}
	if len(r.Runs) > 0 {
		out.print("\n")
		out.table(runRows(r.Runs))
	}
	out.warn(r.Warnings)
	return out.Flush()
}

func headline(r Result) string {
	parts := []string{units.Plural(r.Stages, "stage")}
	if r.VirtualStages > 1 {
		parts[0] += fmt.Sprintf(" × %d", r.VirtualStages)
	}
	parts = append(parts, units.Plural(r.Microbatches, "microbatch"))
	if !trains(r) {
		parts = []string{units.Plural(len(r.Ranks), "rank")}
	}
	if r.DataParallel > 1 {
		parts = append(parts, fmt.Sprintf("%d data-parallel replicas%s", r.DataParallel, r.sharesText()))
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
	if r.perRank() > 1 {
		parts[len(parts)-1] += fmt.Sprintf(" (%d devices)", r.perRank()*len(r.Ranks))
	}
	return fmt.Sprintf("%s: %s, %s", nameText(r.Name, r.scheduleText()), strings.Join(parts, ", "), r.Kind)
}

// sharesText says what the replicas' shares of the samples are, where these differ.
func (r Result) sharesText() string {
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
func startup(r Result) string {
	if r.Startup == 0 {
		return ""
	}
	return fmt.Sprintf("; %s of it the broadcast of the parameters, once in a training: throughput and MFU leave it out", duration(r.Startup))
}

// bubble tells the bubble, and nothing where nothing is computed.
func bubble(r Result) string {
	if !trains(r) || r.Bubble.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s of the makespan, %s of the longest span", percent(r.Bubble.Makespan), percent(r.Bubble.Span))
}

// steadyState tells the pace of a pipeline that is never flushed; nothing for others.
func steadyState(r Result) string {
	if r.SteadyMicrobatch == 0 {
		return ""
	}
	return duration(r.SteadyMicrobatch) + " per microbatch, without fill and drain"
}

// text says how close to the best an order is that was searched for; nothing for
// others.
func (s *Search) text() string {
	switch {
	case s == nil:
		return ""
	case s.Gap <= 0:
		return "longest span " + duration(s.Span) + ", which no order is below"
	}
	return fmt.Sprintf("longest span %s, at most %s above the best (no order is below %s)", duration(s.Span), percent(s.Gap), duration(s.LowerBound))
}

// trains reports whether the run trains anything. A collective by itself
// has neither stages nor a bubble.
func trains(r Result) bool {
	return slices.ContainsFunc(r.Ranks, func(rank RankResult) bool { return rank.PeakInFlight > 0 })
}

// throughput tells what is known of it.
func throughput(t Throughput) string {
	var parts []string
	if t.Samples > 0 {
		parts = append(parts, perSecondText(t.Samples)+" samples/s")
	}
	if t.Tokens > 0 {
		parts = append(parts, perSecondText(t.Tokens)+" tokens/s")
	}
	return strings.Join(parts, ", ")
}

// memoryVerdict says whether memory suffices, and the highest peak. It is empty
// where no memory was modelled.
func memoryVerdict(r Result) string {
	highest := highestRank(r)
	peak := "the highest peak is " + units.FormatBytes(highest.PeakMemory)
	whole := units.FormatBytes(int64(float64(highest.MemoryCapacity) / (1 - r.MemoryMargin)))
	switch {
	case highest.MemoryCapacity == 0:
	case r.MemoryMargin == 0 || !r.FitsMemory:
		peak += " of " + whole
	case r.MemoryVerdict == Close:
		peak += fmt.Sprintf(" of %s, which is within the margin of %s", whole, percent(r.MemoryMargin))
	default:
		peak += fmt.Sprintf(" of %s (a margin of %s stays free)", units.FormatBytes(highest.MemoryCapacity), percent(r.MemoryMargin))
	}
	peak += fmt.Sprintf(", on rank %d", highest.Rank)
	known := highest.MemoryCapacity > 0
	if len(r.Nodes) > 0 {
		known = true
		n := slices.MaxFunc(r.Nodes, func(a, b NodeResult) int { return cmp.Compare(a.PeakMemory, b.PeakMemory) })
		peak += fmt.Sprintf("; node %d needs %s for %s and has %s", n.Node, units.FormatBytes(n.PeakMemory), units.Plural(n.Devices, "device"), units.FormatBytes(int64(float64(n.MemoryCapacity)/(1-r.MemoryMargin))))
	}
	switch {
	case highest.PeakMemory == 0:
		return ""
	case !r.FitsMemory:
		return DoesNotFit + "; " + peak
	case r.MemoryVerdict == Close:
		return Close + "; " + peak
	case known:
		return "fits; " + peak
	}
	return peak + " (no limit known)"
}

// text says what the longest chain of tasks is made of, leaving out what it
// has none of; nothing where it is not known.
func (c *CriticalPath) text(step float64) string {
	if c == nil || step <= 0 {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		name    string
		seconds float64
	}{{"compute", c.Compute}, {"communication", c.Communication}, {"dispatch", c.Dispatch}, {"latency", c.Latency}, {"optimizer", c.Optimizer}} {
		if p.seconds > 0 {
			parts = append(parts, percent(p.seconds/step)+" "+p.name)
		}
	}
	return strings.Join(parts, ", ")
}
