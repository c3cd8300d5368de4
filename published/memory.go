package published

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/configs"
	"psim/results"
)

// memoryTables replay the memory that training runs took, where their sources say.
func memoryTables() []Table {
	bloom, nanotron := sources()[1], sources()[2]
	return []Table{{
		Name: "memory-" + bloom.file, Title: "memory of a device, " + bloom.title, Figure: "memory", Paper: runsPaper, Place: bloom.place,
		Fitted: "memory.allocator of stack megatron-deepspeed, from every fourth row, as far as all rows fit their devices; context and communication are of other sources (docs/memory.md)",
		Note:   "GB of nvidia-smi are taken for GiB. Line 634 is said to take 65 GB with 2 samples, and line 635, which has 4 of the same, 56: one of both is wrong.",
		Rows:   func() ([]Row, error) { return memoryRows(bloom, "nvidia_smi_gb", wholePeak) },
	}, {
		Name: "memory-" + nanotron.file, Title: "peak of allocated tensors, " + nanotron.title, Figure: "memory", Paper: runsPaper, Place: nanotron.place,
		Note: "Tensors alone, without context, communication and what the allocator holds beyond them. What eager kernels keep beyond what a layer lists is not counted, nor are a loss's rows in fp32.",
		Rows: func() ([]Row, error) { return memoryRows(nanotron, "peak_gb", tensors) },
	}}
}

// memoryRows predicts the memory of the runs that have a column of it, in GiB.
func memoryRows(source runs, column string, of func(results.RankResult) int64) ([]Row, error) {
	with := slices.DeleteFunc(records("runs_"+source.file+".csv"), func(r record) bool { return r.text(column) == "" })
	return rowPer(with, func(r record) (Row, error) {
		result, err := r.predicted()
		if err != nil {
			return Row{}, err
		}
		return Row{
			Label: r.text("row"), Unit: "GiB", Facets: r.facets(result), Used: source.fitted != "" && r.text("used") != "",
			Published: r.number(column), Predicted: float64(of(highest(result))) / (1 << 30),
		}, nil
	})
}

// predicted predicts a run, with settings over its own.
func (r record) predicted(sets ...string) (results.Result, error) {
	return estimated(configs.Parse("table", []byte(r.configuration()), sets...))
}

// highest returns the rank with the highest peak.
func highest(r results.Result) results.RankResult {
	return slices.MaxFunc(r.Ranks, func(a, b results.RankResult) int { return cmp.Compare(a.PeakMemory, b.PeakMemory) })
}

func wholePeak(r results.RankResult) int64 { return r.PeakMemory }

// tensors counts what a rank has allocated at its peak.
func tensors(r results.RankResult) int64 {
	m := r.Memory
	return m.Parameters + m.Gradients + m.Optimizer + m.Activations
}

// verdicts counts the verdicts on the memory of runs, all of which have run.
func (t Result) verdicts() (counts map[string]int, all int) {
	counts = map[string]int{}
	for _, row := range t.Replayed {
		if row.Verdict != "" {
			counts[row.Verdict]++
			all++
		}
	}
	return counts, all
}

// writeVerdicts writes a line for every table that has verdicts, in a form that begins with
// the table's name.
func (r Report) writeVerdicts(b *strings.Builder, head, form string) {
	for _, t := range r.Tables {
		counts, all := t.verdicts()
		if all == 0 {
			continue
		}
		b.WriteString(head)
		head = ""
		fmt.Fprintf(b, form, t.Name, all, counts[results.Fits], counts[results.Close], counts[results.DoesNotFit], all-counts[results.DoesNotFit])
	}
}

// The forms of verdicts in text and in Markdown.
const (
	verdictText     = "%s: of %d runs, all of which ran, %d fit, %d are close and %d do not fit: right %d times\n"
	verdictHead     = "\nMemory of the training runs, all of which ran, by the verdict of `psim run`:\n\n| table | rows | fits | close | does not fit | right |\n|---|--:|--:|--:|--:|--:|\n"
	verdictMarkdown = "| %s | %d | %d | %d | %d | %d |\n"
)
