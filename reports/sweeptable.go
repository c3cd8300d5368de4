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

// sweepColumns heads the rows of sweep.csv, after index and what varies.
const sweepColumns = "schedule,stages,virtual_stages,microbatches,data_parallel,tensor_parallel,devices," +
	"step_time_s,makespan_s,bubble_makespan,bubble_span,samples_per_s,tokens_per_s,tokens_per_s_per_device,mfu,hfu," +
	"peak_memory_bytes,fits_memory,memory_verdict,epoch_time_s,efficiency,error"

// WriteCSV writes a header and a row per point: its index, what varies, and the
// numbers of its result; or at the end why it has none.
func (s Sweep) WriteCSV(w io.Writer) error {
	header := []string{"index"}
	for _, v := range s.Vary {
		header = append(header, v.Key)
	}
	out := newCSVWriter(w, strings.Join(append(header, sweepColumns), ","))
	efficiencies := s.efficiencies()
	for i, p := range s.Points {
		row := []any{int64(p.Index)}
		for _, value := range s.values(p) {
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
		out.row(append(row, cells...)...)
	}
	return out.end()
}

// WriteTable prints a row per point for people.
func (s Sweep) WriteTable(w io.Writer) error {
	out, efficiencies := newPage(w), s.efficiencies()
	used := s.any(func(r Result) bool { return r.MFU > 0 })
	epochs := s.any(func(r Result) bool { return r.Epochs != nil })
	scales := slices.ContainsFunc(efficiencies, func(e *float64) bool { return e != nil })
	table, refused := [][]string{s.header(used, epochs, scales)}, 0
	for i, p := range s.Points {
		row := s.values(p)
		if p.Error != "" {
			refused++
			table = append(table, append(row, "–", "–", "–", "–", "–", "no"))
			continue
		}
		row = append(row, p.Result.sweepCells()...)
		if used {
			row = append(row, percent(p.Result.MFU))
		}
		if r := p.Result; r.Epochs != nil {
			row = append(row, duration(r.Epochs.Time))
		} else if epochs {
			row = append(row, "–")
		}
		if e := efficiencies[i]; e != nil {
			row = append(row, percent(*e))
		}
		table = append(table, row)
	}
	out.table(table)
	s.explain(out, refused)
	return out.Flush()
}

// header names the columns of a table, with those that some points have.
func (s Sweep) header(used, epochs, scales bool) (names []string) {
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
func (s Sweep) any(is func(Result) bool) bool {
	return slices.ContainsFunc(s.Points, func(p Point) bool { return is(p.Result) })
}

// sweepCells prints what every table of a sweep has of a result.
func (r Result) sweepCells() []string {
	samples := "–"
	if r.Throughput.Samples > 0 {
		samples = perSecondText(r.Throughput.Samples)
	}
	peak := "–"
	if r.usesMemory() {
		peak = units.FormatBytes(r.PeakMemory())
	}
	return []string{strconv.Itoa(r.Devices), duration(r.StepTime), percent(r.Bubble.Makespan), samples, peak,
		r.fits()}
}

// explain says which point is the fastest that fits, with the margin that is set, and why some have no result.
func (s Sweep) explain(out page, refused int) {
	fits := slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool { return p.Error != "" || !p.Result.Fits() })
	if len(fits) > 1 {
		what, best := "the shortest step", slices.MinFunc(fits, func(a, b Point) int { return cmp.Compare(a.Result.StepTime, b.Result.StepTime) })
		if rate := func(p Point) float64 { return p.Result.Throughput.Samples }; rate(best) > 0 {
			what, best = "the highest throughput", slices.MaxFunc(fits, func(a, b Point) int { return cmp.Compare(rate(a), rate(b)) })
		}
		out.print("\n%s: --set %s\n", what, strings.Join(best.Set, " --set "))
	}
	if refused > 0 {
		s.refusals(out, refused)
	}
}

// refusals prints why combinations cannot be, every reason once.
func (s Sweep) refusals(out page, refused int) {
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
	out.print("\n%s cannot be:\n", units.Plural(refused, "combination"))
	const most = 5
	for i, reason := range reasons {
		if i == most {
			out.print("  … and %s more, in --csv\n", units.Plural(len(reasons)-most, "reason"))
			return
		}
		if n := count[reason]; n > 1 {
			reason += fmt.Sprintf(" (%d times)", n)
		}
		out.print("  %s\n", reason)
	}
}
