// Package compare compares two runs: by how much their steps differ, and which parts of the
// step the difference comes from.
package compare

import (
	"fmt"
	"io"
	"math"
	"strings"

	"psim/internal/files"
	"psim/internal/units"
	"psim/results"
	"psim/schedules/graph"
)

// A Comparison says by how much B differs from A, and which parts of the step the difference
// comes from. Differences are B − A: they are positive where B takes longer, idles more or
// needs more. Fractions are of A, and 0 where A's value is 0. The times of a measured run are
// means over its steps; only those by kind are of a single step, whose trace was saved.
type Comparison struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// WorkDiffers says in which respects the steps differ in work, so that their throughput
	// compares them rather than their times.
	WorkDiffers []string `json:"work_differs,omitempty"`
	// Impossible says which run computes more than its devices can; "" where none does.
	Impossible string `json:"impossible,omitempty"`
	// ThroughputDifference is a fraction of A's throughput, which is in samples, tokens or
	// microbatches: ThroughputOf says which.
	ThroughputDifference Optional `json:"throughput_error,omitzero"`
	ThroughputOf         string   `json:"throughput_of,omitempty"`
	// StepTimeDifference is a fraction of A's step time. ByPart adds up to it.
	StepTimeDifference float64 `json:"step_time_error"`
	// BubbleDifference is the difference of two shares of the makespan: 0.02 is two
	// percentage points.
	BubbleDifference Optional `json:"bubble_error,omitzero"`
	// PeakMemoryDifference compares the highest peaks; it is a fraction of A's.
	PeakMemoryDifference Optional                  `json:"peak_memory_error,omitzero"`
	ByPart               Parts                     `json:"by_part,omitzero"` // fractions of A's step time
	ByKind               map[string]KindComparison `json:"by_kind"`          // by the notation of the kind
	ByRank               []RankComparison          `json:"by_rank"`          // the ranks that both runs have
	Tasks                TaskCounts                `json:"tasks"`
	Warnings             []string                  `json:"warnings"`
}

// An Optional is a number that may be unknown. It is NaN then, and absent from files.
type Optional float64

// IsZero reports whether the number is unknown, for encoding/json's omitzero.
func (x Optional) IsZero() bool { return math.IsNaN(float64(x)) }

// Equal reports whether both numbers are the same, or both are unknown.
func (x Optional) Equal(y Optional) bool { return x == y || x.IsZero() && y.IsZero() }

// A Side is one of the two runs of a Comparison.
type Side struct {
	Name       string   `json:"name"`
	Schedule   string   `json:"schedule"`
	FullName   string   `json:"-"` // the configuration and the schedule
	Kind       string   `json:"kind"`
	Stages     int      `json:"stages"`
	Steps      int      `json:"steps,omitempty"` // how many were measured
	StepTime   float64  `json:"step_time_s"`
	Samples    float64  `json:"samples_per_step,omitempty"`
	Throughput float64  `json:"throughput_per_s,omitempty"` // in what ThroughputOf says
	Bubble     Optional `json:"bubble,omitzero"`            // share of the makespan
	PeakMemory int64    `json:"peak_memory_bytes,omitempty"`
	Parts      Parts    `json:"parts_s,omitzero"` // seconds, averaged over the ranks
}

// Parts splits the step time of a rank into four parts that add up to it.
type Parts struct {
	Compute       float64 `json:"compute"`       // with the optimizer
	Communication float64 `json:"communication"` // the exposed part
	Waiting       float64 `json:"waiting"`       // idle time in which no work is ready
	Dispatch      float64 `json:"dispatch"`      // idle time in which work is ready
}

// IsZero reports whether the parts are unknown, for encoding/json's omitzero.
func (p Parts) IsZero() bool { return math.IsNaN(p.Compute) }

// A KindComparison compares all tasks of a kind. A pass that is cut into pieces counts once.
type KindComparison struct {
	CountA int     `json:"count_a"`
	CountB int     `json:"count_b"`
	MeanA  float64 `json:"mean_a_s"`
	MeanB  float64 `json:"mean_b_s"`
	TotalA float64 `json:"total_a_s"`
	TotalB float64 `json:"total_b_s"`
	Error  float64 `json:"error"`   // of the mean time, a fraction of A's
	OfStep float64 `json:"of_step"` // of a rank's time, a fraction of A's step
}

// A RankComparison compares a rank. Busy times include the optimizer.
type RankComparison struct {
	Rank            int      `json:"rank"`
	BusyA           float64  `json:"busy_a_s"`
	BusyB           float64  `json:"busy_b_s"`
	BusyError       float64  `json:"busy_error"` // a fraction of A's step
	IdleA           float64  `json:"idle_a_s"`
	IdleB           float64  `json:"idle_b_s"`
	IdleError       float64  `json:"idle_error"` // a fraction of A's step
	PeakMemoryA     int64    `json:"peak_memory_a_bytes,omitempty"`
	PeakMemoryB     int64    `json:"peak_memory_b_bytes,omitempty"`
	PeakMemoryError Optional `json:"peak_memory_error,omitzero"` // a fraction of A's peak
}

// TaskCounts counts the tasks that both graphs have, and those that only one has. A pass that
// is cut into pieces counts once.
type TaskCounts struct {
	Both  int `json:"both"`
	OnlyA int `json:"only_a"`
	OnlyB int `json:"only_b"`
}

// Compare compares B with A. They may be of different graphs, or have no traces: it leaves out
// what cannot be compared, and adds a warning.
func Compare(a, b results.Run) Comparison {
	c := Comparison{
		A: newSide(a.Result), B: newSide(b.Result),
		ByKind: map[string]KindComparison{}, ByRank: []RankComparison{}, Warnings: []string{},
	}
	c.setWork(a.Result, b.Result)
	step := c.A.StepTime
	c.Impossible = c.impossible(a.Result, b.Result)
	c.StepTimeDifference = Fraction(c.B.StepTime-step, step)
	c.BubbleDifference = c.B.Bubble - c.A.Bubble
	c.PeakMemoryDifference = peakDifference(c.A.PeakMemory, c.B.PeakMemory)
	x, y := c.A.Parts, c.B.Parts
	c.ByPart = Parts{
		Compute:       Fraction(y.Compute-x.Compute, step),
		Communication: Fraction(y.Communication-x.Communication, step),
		Waiting:       Fraction(y.Waiting-x.Waiting, step),
		Dispatch:      Fraction(y.Dispatch-x.Dispatch, step),
	}
	for r := range min(len(a.Result.Ranks), len(b.Result.Ranks)) {
		if c.ByPart.IsZero() {
			break
		}
		c.ByRank = append(c.ByRank, compareRanks(a.Result.Ranks[r], b.Result.Ranks[r], step))
	}
	if a.Trace != nil && b.Trace != nil {
		c.compareTasks(a.Trace, b.Trace)
	}
	c.warn(a, b)
	return c
}

// impossible holds a measured run against the peak of the devices that the other is predicted for.
func (c *Comparison) impossible(a, b results.Result) string {
	faster, planned, side := c.A.StepTime/c.B.StepTime, a, c.B
	if b.Kind != results.Measured {
		faster, planned, side = 1/faster, b, c.A
	}
	rate := planned.HFU * faster
	if c.WorkDiffers != nil || side.Kind != results.Measured || planned.Kind == results.Measured || rate <= 1 ||
		math.IsInf(rate, 0) || math.IsNaN(rate) {
		return ""
	}
	return fmt.Sprintf("cannot be: a step of %s would be %s of the devices' peak; are the devices, the batch and the "+
		"precision right?", units.FormatSeconds(side.StepTime), units.FormatPercent(rate))
}

// Fraction divides a difference by a whole. It is 0 where the whole is 0.
func Fraction(difference, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return difference / whole
}

// peakDifference returns by how much peak b exceeds peak a, as a fraction of a. A peak of 0 is
// unknown, and so is then the difference.
func peakDifference(a, b int64) Optional {
	if a == 0 || b == 0 {
		return Optional(math.NaN())
	}
	return Optional(Fraction(float64(b)-float64(a), float64(a)))
}

func newSide(r results.Result) Side {
	s := Side{
		Name: r.Name, Schedule: r.Schedule, FullName: r.FullName(), Kind: r.Kind,
		Stages: r.Stages, Steps: r.StepCount(),
		StepTime: r.StepTime, Bubble: Optional(r.Bubble.Makespan), PeakMemory: r.PeakMemory(),
	}
	if !r.HasBreakdown() {
		unknown := math.NaN()
		s.Parts = Parts{unknown, unknown, unknown, unknown}
		return s
	}
	n := float64(len(r.Ranks))
	for _, rank := range r.Ranks {
		dispatch, _ := rank.IdleParts()
		s.Parts.Compute += (rank.Compute + rank.Optimizer) / n
		s.Parts.Communication += rank.ExposedCommunication / n
		s.Parts.Dispatch += dispatch / n
	}
	s.Parts.Waiting = r.StepTime - s.Parts.Compute - s.Parts.Communication - s.Parts.Dispatch
	return s
}

func compareRanks(a, b results.RankResult, step float64) RankComparison {
	c := RankComparison{
		Rank: a.Rank, BusyA: a.Compute + a.Optimizer, BusyB: b.Compute + b.Optimizer, IdleA: a.Idle, IdleB: b.Idle,
		PeakMemoryA: a.PeakMemory, PeakMemoryB: b.PeakMemory,
	}
	c.BusyError, c.IdleError = Fraction(c.BusyB-c.BusyA, step), Fraction(c.IdleB-c.IdleA, step)
	c.PeakMemoryError = peakDifference(a.PeakMemory, b.PeakMemory)
	return c
}

// compareTasks compares the tasks by kind, and counts those that both traces have.
func (c *Comparison) compareTasks(a, b *graph.Trace) {
	counts := map[graph.Task]int{} // how many more of a task A has than B
	var tasks int                  // the number of A's tasks
	tally := func(t *graph.Trace, sign int, add func(k *KindComparison, tasks int, s float64)) {
		for i, task := range t.Graph.Tasks() {
			kind := c.ByKind[task.Kind.String()]
			whole := 1
			if task.Kind.Compute() && task.Part > 0 {
				whole = 0 // a later piece of a pass that is cut
			}
			add(&kind, whole, t.Span(i).Duration().Seconds())
			c.ByKind[task.Kind.String()] = kind
			task.Stream, task.Bytes = 0, 0 // the work is the same wherever it queues
			counts[task] += sign * whole
			tasks += max(0, sign*whole)
		}
	}
	tally(a, 1, func(k *KindComparison, n int, s float64) { k.CountA, k.TotalA = k.CountA+n, k.TotalA+s })
	tally(b, -1, func(k *KindComparison, n int, s float64) { k.CountB, k.TotalB = k.CountB+n, k.TotalB+s })
	for name, k := range c.ByKind {
		k.MeanA, k.MeanB = Fraction(k.TotalA, float64(k.CountA)), Fraction(k.TotalB, float64(k.CountB))
		k.Error = Fraction(k.MeanB-k.MeanA, k.MeanA)
		k.OfStep = Fraction(k.TotalB/float64(b.Graph.Ranks())-k.TotalA/float64(a.Graph.Ranks()), c.A.StepTime)
		c.ByKind[name] = k
	}
	for _, n := range counts {
		c.Tasks.OnlyA += max(0, n)
		c.Tasks.OnlyB += max(0, -n)
	}
	c.Tasks.Both = tasks - c.Tasks.OnlyA
}

// warn adds warnings about what could not be compared, and about times that are not
// comparable.
func (c *Comparison) warn(a, b results.Run) {
	add := func(format string, args ...any) { c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...)) }
	if c.WorkDiffers != nil {
		how := strings.Join(c.WorkDiffers, "; ")
		add("the steps differ in work: %s; compare the throughput, not the step times", how)
	}
	if x, y := a.Result.GraphText(), b.Result.GraphText(); x != y {
		add("the graphs differ: A is %s, B is %s", x, y)
	}
	if c.Tasks.OnlyA > 0 || c.Tasks.OnlyB > 0 {
		add("%d tasks are in both, %d only in A and %d only in B", c.Tasks.Both, c.Tasks.OnlyA, c.Tasks.OnlyB)
	}
	if c.A.StepTime == 0 {
		add("A takes no time, so that nothing can be a fraction of it")
	}
	for i, run := range []results.Run{a, b} {
		side := "AB"[i : i+1]
		if run.Trace == nil {
			add("%s has no trace, so that no tasks are compared", side)
		}
		if !run.Result.HasBreakdown() {
			add("%s does not say what its step is made of, so that only the steps are compared", side)
		}
		m := run.Result.Measurement
		if m != nil && m.Source != "" {
			for _, w := range run.Result.Warnings {
				add("%s: %s", side, w)
			}
		}
		if m != nil && !m.TimesComparable {
			add("%s ran on devices that share cores: its times say little about devices of their own", side)
		}
		if m != nil && m.Partial {
			add("%s was interrupted", side)
		}
		unsplit := len(run.Result.Ranks) > 0 && run.Result.Ranks[0].Dispatch == nil
		if run.Result.Kind == results.Measured && unsplit && run.Result.HasBreakdown() {
			add("%s does not know when tasks were ready, so that its dispatch counts as waiting", side)
		}
	}
}

// WriteJSON writes the comparison as an indented JSON object.
func (c Comparison) WriteJSON(w io.Writer) error { return files.WriteJSON(w, c) }

// Columns returns the headings of the two runs: predicted and measured, or A and B.
func (c Comparison) Columns() (a, b string) {
	if c.A.Kind == c.B.Kind {
		return "A", "B"
	}
	return c.A.Kind, c.B.Kind
}
