package reports

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
)

// WriteResult prints a result for people: what was run, its main numbers, a table of the ranks
// and of the runs, and the warnings. Of more than 16 ranks the table has the first and last
// four, and the least, mean and greatest value of every column.
func WriteResult(w io.Writer, r results.Result) error {
	out := table.NewPage(w)
	if r.FineTuning != nil {
		writeFineTuning(out, r)
	}
	out.Print("%s\n", headline(r))
	for _, line := range resultLines(r) {
		if line[1] != "" {
			out.Print("  %-15s%s\n", line[0], line[1])
		}
	}
	out.Print("\n")
	ranks, replicas := distinctRanks(r)
	rankTable(ranks).Text(out)
	if replicas > 1 {
		out.Print("  %s of %d replicas, all alike\n", rankText(len(ranks)), replicas)
	}
	if len(r.Runs) > 0 {
		out.Print("\n")
		runTable(r.Runs).Text(out)
	}
	out.Warn(r.Warnings)
	return out.Flush()
}

// resultLines lists the main numbers of a result with their names. A text is empty where the
// number is meaningless for the run.
func resultLines(r results.Result) [][2]string {
	return slices.Concat([][2]string{
		{"step time", stepTime(r)},
		{"interval", intervalText(r)},
		{"predicted", prediction(r)},
		{"makespan", units.FormatSeconds(r.Makespan)},
		bubbleLine(r),
		{"steady state", steadyState(r)},
		{"search", searchText(r.Search)},
		{"critical path", criticalPathText(r.CriticalPath, r.StepTime)},
		{"throughput", throughput(r.Throughput) + tokensOfOne(r)},
	}, epochLines(r.Epochs), [][2]string{
		{"parameters", parameters(r)}, {"MFU", utilization(r)},
		{"unsynchronised", unwaitedRate(r)},
		{"validation", validation(r)},
		{"memory", memoryVerdict(r)},
		{"at that peak", memoryAtPeak(r)}, {"in the host", hosted(r)},
		{"runs", attempts(r)},
		{"process", heapGrowth(r)},
		{"not counted", unseen(r)},
		{"backend", backend(r)}, {"processes", processes(r)},
		{"checks", checks(r)},
	})
}

// hosted says which tensors wait in the memory of hosts; "" if none do.
func hosted(r results.Result) string {
	train, _ := r.Config["train"].(map[string]any)
	if n := fmt.Sprint(train["offload_activations"]); n != "0" && n != "<nil>" {
		return "the tensors that the first blocks keep for their backward: train.offload_activations = " + n
	}
	return ""
}

// headline says what was run.
func headline(r results.Result) string {
	parts := []string{units.Plural(r.Stages, "stage")}
	if adapter := r.Adapter(); adapter != "" {
		parts[0] = adapter + ", " + parts[0]
	}
	if r.VirtualStages > 1 {
		parts[0] += fmt.Sprintf(" × %d", r.VirtualStages)
	}
	parts = append(parts, units.Plural(r.Microbatches, "microbatch"))
	if r.Work.Read && r.Work.SequenceLength > 0 { // which the file may not say
		parts = append(parts, units.FormatCount(int64(r.Work.SequenceLength))+" tokens a sample")
	}
	if !trains(r) {
		parts = []string{units.Plural(len(r.Ranks), "rank")}
	}
	if r.DataParallel > 1 {
		parts = append(parts, fmt.Sprintf("%d data-parallel replicas%s", r.DataParallel, sharesText(r)))
	}
	if r.Hybrid() {
		parts = append(parts, fmt.Sprintf("sharded in groups of %d", r.ZeroGroup))
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
	if r.DevicesPerRank() > 1 {
		parts[len(parts)-1] += fmt.Sprintf(" (%d devices)", r.DevicesPerRank()*len(r.Ranks))
	}
	return fmt.Sprintf("%s: %s, %s", r.FullName(), strings.Join(parts, ", "), r.Kind)
}

// sharesText lists the replicas' shares of the samples where they differ.
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

// startup says how much of the step the broadcast before it takes.
func startup(r results.Result) string {
	if r.Startup == 0 {
		return ""
	}
	return fmt.Sprintf("; %s of it the broadcast of the parameters, once in a training: "+
		"throughput and MFU leave it out", units.FormatSeconds(r.Startup))
}

// bubbleLine prints the bubble of a run that trains. With a single stage it is what computes
// nothing, for another reason than a pipeline.
func bubbleLine(r results.Result) [2]string {
	share := units.FormatPercent(r.Bubble.Makespan) + " of the makespan"
	switch {
	case !trains(r) || r.Bubble.IsZero():
		return [2]string{}
	case r.Stages > 1:
		return [2]string{"bubble", share + ", " + units.FormatPercent(r.Bubble.Span) + " of the longest span"}
	case slices.ContainsFunc(r.Ranks, func(rank results.RankResult) bool { return rank.ExposedCommunication > 0 }):
		return [2]string{"exposed", share + ": communication that no work hides, or idle"}
	}
	return [2]string{"idle", share}
}

// steadyState prints the pace of a pipeline without flushes.
func steadyState(r results.Result) string {
	if r.SteadyMicrobatch == 0 {
		return ""
	}
	return units.FormatSeconds(r.SteadyMicrobatch) + " per microbatch, without fill and drain"
}

// searchText says how close to the best a found order is.
func searchText(s *results.FoundOrder) string {
	switch {
	case s == nil:
		return ""
	case s.Gap <= 0:
		return "longest span " + units.FormatSeconds(s.Span) + ", which no order is below"
	}
	return fmt.Sprintf("longest span %s, at most %s above the best (no order is below %s)",
		units.FormatSeconds(s.Span), units.FormatPercent(s.Gap), units.FormatSeconds(s.LowerBound))
}

// trains reports whether the run trains a network. A collective alone has neither stages nor a
// bubble.
func trains(r results.Result) bool {
	return slices.ContainsFunc(r.Ranks, func(rank results.RankResult) bool { return rank.PeakInFlight > 0 })
}

// throughput prints the rates that are known.
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

// tokensOfOne says that the throughput is of all devices, and what one does.
func tokensOfOne(r results.Result) string {
	if r.Devices < 2 || r.TokensPerDevice == 0 {
		return ""
	}
	return fmt.Sprintf(" in total (%s per device)", units.FormatPerSecond(r.TokensPerDevice))
}

// criticalPathText prints the parts of the longest chain of tasks, without those of length 0.
func criticalPathText(c *results.CriticalPath, step float64) string {
	if c == nil || step <= 0 {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		name    string
		seconds float64
	}{
		{"compute", c.Compute}, {"communication", c.Communication}, {"dispatch", c.Dispatch},
		{"latency", c.Latency}, {"optimizer", c.Optimizer},
	} {
		if p.seconds > 0 {
			parts = append(parts, units.FormatPercent(p.seconds/step)+" "+p.name)
		}
	}
	return strings.Join(parts, ", ")
}

// utilization says how much of the devices' peak the run uses.
func utilization(r results.Result) string {
	if r.MFU == 0 {
		return ""
	}
	text := units.FormatPercent(r.MFU)
	why := ""
	if hfu := units.FormatPercent(r.HFU); hfu != text {
		text += fmt.Sprintf(" (HFU %s)", hfu)
		why = aboveHardware(r)
	}
	if r.TrainedParameters > 0 {
		why += "; for products with frozen weights MFU counts 2 × their forward, not 3 ×"
	}
	return fmt.Sprintf("%s, %s per device of %s in %s%s",
		text, units.FormatFLOPS(r.MFU*r.PeakFLOPs), units.FormatFLOPS(r.PeakFLOPs), r.Precision, why)
}

// aboveHardware says why MFU is above HFU, where it is. Only transformers have tokens.
func aboveHardware(r results.Result) string {
	switch {
	case r.MFU <= r.HFU:
		return ""
	case r.Windows:
		return "; MFU counts all tokens of a window for each token, and without one the full square"
	case r.Throughput.Tokens > 0:
		return "; MFU counts attention's full square, as its sources do"
	}
	return "; MFU counts the first layer's input gradient, which is not computed"
}

// parameters prints the number of parameters of a mixture of experts, and of a network that
// was read from a file. Readers can compare it with the published number.
func parameters(r results.Result) string {
	text := units.FormatCount(r.Parameters)
	switch {
	case r.TrainedParameters > 0:
		return fmt.Sprintf("%s, %s of them trained", text, units.FormatCount(r.TrainedParameters))
	case r.ActiveParameters < r.Parameters:
		return fmt.Sprintf("%s, %s of them for a token", text, units.FormatCount(r.ActiveParameters))
	case r.Read:
		return text
	}
	return ""
}
