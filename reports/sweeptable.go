package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"psim/internal/csvfile"
	"psim/internal/units"
	"psim/reports/table"
	"psim/results"
	"psim/results/rankings"
)

// sweepColumns heads the rows of sweep.csv, after index and what varies.
const sweepColumns = "schedule,stages,virtual_stages,microbatches,data_parallel,tensor_parallel,devices," +
	"step_time_s,makespan_s,bubble_makespan,bubble_span,samples_per_s,tokens_per_s,tokens_per_s_per_device,mfu,hfu," +
	"peak_memory_bytes,fits_memory,memory_verdict,epoch_time_s,efficiency,error"

// WriteCSV writes a header and a row per point: its index, what varies, and the
// numbers of its result; or at the end why it has none.
func WriteSweepCSV(w io.Writer, s rankings.Sweep) error {
	header := []string{"index"}
	for _, v := range s.Vary {
		header = append(header, v.Key)
	}
	out := csvfile.NewWriter(w, strings.Join(append(header, sweepColumns), ","))
	efficiencies := s.Efficiencies()
	for i, p := range s.Points {
		row := []any{int64(p.Index)}
		for _, value := range s.Values(p) {
			row = append(row, value)
		}
		r, efficiency, epoch := p.Result, any(""), any("")
		if e := efficiencies[i]; e != nil {
			efficiency = *e
		}
		if r.Epochs != nil {
			epoch = r.Epochs.Time
		}
		cells := []any{r.Schedule, r.Stages, r.VirtualStages, r.Microbatches, r.DataParallel, r.TensorParallel, r.Devices,
			r.StepTime, r.Makespan, r.Bubble.Makespan, r.Bubble.Span, r.Throughput.Samples, r.Throughput.Tokens, r.TokensPerDevice, r.MFU, r.HFU,
			r.PeakMemory(), r.FitsMemory, r.MemoryVerdict, epoch, efficiency, p.Error}
		for k := range cells {
			if p.Error != "" && k < len(cells)-1 {
				cells[k] = ""
			}
		}
		out.Row(append(row, cells...)...)
	}
	return out.End()
}

// WriteTable prints a row per point for people.
func WriteSweep(w io.Writer, s rankings.Sweep) error {
	out, efficiencies := table.NewPage(w), s.Efficiencies()
	used := anyPoint(s, func(r results.Result) bool { return r.MFU > 0 })
	epochs := anyPoint(s, func(r results.Result) bool { return r.Epochs != nil })
	scales := slices.ContainsFunc(efficiencies, func(e *float64) bool { return e != nil })
	table, refused := [][]string{sweepHeader(s, used, epochs, scales)}, 0
	for i, p := range s.Points {
		row := s.Values(p)
		if p.Error != "" {
			refused++
			table = append(table, append(row, "–", "–", "–", "–", "–", "no"))
			continue
		}
		row = append(row, sweepCells(p.Result)...)
		if used {
			row = append(row, units.FormatPercent(p.Result.MFU))
		}
		if r := p.Result; r.Epochs != nil {
			row = append(row, units.FormatSeconds(r.Epochs.Time))
		} else if epochs {
			row = append(row, "–")
		}
		if e := efficiencies[i]; e != nil {
			row = append(row, units.FormatPercent(*e))
		}
		table = append(table, row)
	}
	out.Table(table)
	explainSweep(s, out, refused)
	return out.Flush()
}

// header names the columns of a table, with those that some points have.
func sweepHeader(s rankings.Sweep, used, epochs, scales bool) (names []string) {
	for _, v := range s.Vary {
		names = append(names, v.Key)
	}
	names = append(names, "devices", "step time", "bubble", "samples/s", "peak memory", "fits")
	for _, column := range []struct {
		name string
		has  bool
	}{{"MFU", used}, {"epoch", epochs}, {"efficiency", scales}} {
		if column.has {
			names = append(names, column.name)
		}
	}
	return names
}

// any says whether a point has a result of a kind.
func anyPoint(s rankings.Sweep, is func(results.Result) bool) bool {
	return slices.ContainsFunc(s.Points, func(p rankings.SweepPoint) bool { return is(p.Result) })
}

// sweepCells prints what every table of a sweep has of a result.
func sweepCells(r results.Result) []string {
	samples := "–"
	if r.Throughput.Samples > 0 {
		samples = units.FormatPerSecond(r.Throughput.Samples)
	}
	peak := "–"
	if r.UsesMemory() {
		peak = units.FormatBytes(r.PeakMemory())
	}
	return []string{strconv.Itoa(r.Devices), units.FormatSeconds(r.StepTime), units.FormatPercent(r.Bubble.Makespan), samples, peak,
		fitsText(r)}
}

// explain says which point is the fastest that fits, with the margin that is set, and why some have no result.
func explainSweep(s rankings.Sweep, out table.Page, refused int) {
	fits := slices.DeleteFunc(slices.Clone(s.Points), func(p rankings.SweepPoint) bool { return p.Error != "" || !p.Result.Fits() })
	if len(fits) > 1 {
		what, best := "the shortest step", slices.MinFunc(fits, func(a, b rankings.SweepPoint) int { return cmp.Compare(a.Result.StepTime, b.Result.StepTime) })
		if rate := func(p rankings.SweepPoint) float64 { return p.Result.Throughput.Samples }; rate(best) > 0 {
			what, best = "the highest throughput", slices.MaxFunc(fits, func(a, b rankings.SweepPoint) int { return cmp.Compare(rate(a), rate(b)) })
		}
		out.Print("\n%s: --set %s\n", what, strings.Join(best.Set, " --set "))
	}
	if refused > 0 {
		refusals(s, out, refused)
	}
}

// refusals prints why combinations cannot be, every reason once.
func refusals(s rankings.Sweep, out table.Page, refused int) {
	var reasons []string
	count := map[string]int{}
	for _, p := range s.Points {
		if p.Error == "" {
			continue
		}
		if count[p.Error]++; count[p.Error] == 1 {
			reasons = append(reasons, p.Error)
		}
	}
	out.Print("\n%s cannot be:\n", units.Plural(refused, "combination"))
	const most = 5
	for i, reason := range reasons {
		if i == most {
			out.Print("  … and %s more, in --csv\n", units.Plural(len(reasons)-most, "reason"))
			return
		}
		if n := count[reason]; n > 1 {
			reason += fmt.Sprintf(" (%d times)", n)
		}
		out.Print("  %s\n", reason)
	}
}
