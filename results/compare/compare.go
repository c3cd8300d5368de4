// Package compare holds one run against another: by how much the step differs, and which
// part of the step that comes from.
package compare

import (
	"fmt"
	"io"
	"math"

	"psim/internal/files"
	"psim/results"
	"psim/schedules/graph"
)

// A Comparison says by how much B differs from A and which part of the step
// that comes from. Differences are B − A: positive where B takes longer, idles
// more or needs more. Fractions are of A; where A's is 0, so are they. The times of
// a measured run are means over its steps; only those by kind, which come from its
// trace, are of the step of the median time.
type Comparison struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// StepTimeDifference is a fraction of A's step time. The four parts add up to it.
	StepTimeDifference float64 `json:"step_time_error"`
	// BubbleDifference is one of shares of the makespan: 0.02 is two
	// percentage points.
	BubbleDifference Maybe `json:"bubble_error,omitzero"`
	// PeakMemoryDifference is of the highest peaks, a fraction of A's.
	PeakMemoryDifference Maybe                     `json:"peak_memory_error,omitzero"`
	ByPart               Parts                     `json:"by_part,omitzero"` // fractions of A's step time
	ByKind               map[string]KindComparison `json:"by_kind"`          // by the notation of the kind
	ByRank               []RankComparison          `json:"by_rank"`          // the ranks that both have
	// Tasks counts the tasks that both runs have, and those of only one.
	Tasks    TaskCounts `json:"tasks"`
	Warnings []string   `json:"warnings"`
}

// A Maybe is a number that is unknown where it is NaN, and then absent from files.
type Maybe float64

// IsZero reports whether the number is unknown.
func (m Maybe) IsZero() bool { return math.IsNaN(float64(m)) }

// Equal reports whether both are the same number, or unknown.
func (m Maybe) Equal(other Maybe) bool { return m == other || m.IsZero() && other.IsZero() }

// unknown returns a number that is not known.
func unknown() float64 { return math.NaN() }

// A Side is what a Comparison needs to know of one run.
type Side struct {
	Name         string  `json:"name"`
	Schedule     string  `json:"schedule"`
	ScheduleText string  `json:"-"` // names the schedule as people do
	Kind         string  `json:"kind"`
	Steps        int     `json:"steps,omitempty"` // that were measured
	StepTime     float64 `json:"step_time_s"`
	Bubble       Maybe   `json:"bubble,omitzero"` // of the makespan
	PeakMemory   int64   `json:"peak_memory_bytes,omitempty"`
	Parts        Parts   `json:"parts_s,omitzero"` // seconds, averaged over the ranks
}

// Parts splits the step time of a rank into four that add up to it. Compute is
// with the optimizer; Communication is what is exposed, beside no work;
// Dispatch is idle time with work that is ready, Waiting is without.
type Parts struct {
	Compute       float64 `json:"compute"`
	Communication float64 `json:"communication"`
	Waiting       float64 `json:"waiting"`
	Dispatch      float64 `json:"dispatch"`
}

// IsZero reports whether it is unknown what a step is made of.
func (p Parts) IsZero() bool { return math.IsNaN(p.Compute) }

// A KindComparison compares all tasks of a kind. A pass that is cut into pieces counts once.
// Error is of the mean time, a fraction of A's; OfStep is of the time of a rank, a fraction of
// A's step.
type KindComparison struct {
	CountA int     `json:"count_a"`
	CountB int     `json:"count_b"`
	MeanA  float64 `json:"mean_a_s"`
	MeanB  float64 `json:"mean_b_s"`
	TotalA float64 `json:"total_a_s"`
	TotalB float64 `json:"total_b_s"`
	Error  float64 `json:"error"`
	OfStep float64 `json:"of_step"`
}

// A RankComparison compares a rank. Busy is with the optimizer. The errors of
// Busy and Idle are fractions of A's step, that of the peak of A's peak.
type RankComparison struct {
	Rank            int     `json:"rank"`
	BusyA           float64 `json:"busy_a_s"`
	BusyB           float64 `json:"busy_b_s"`
	BusyError       float64 `json:"busy_error"`
	IdleA           float64 `json:"idle_a_s"`
	IdleB           float64 `json:"idle_b_s"`
	IdleError       float64 `json:"idle_error"`
	PeakMemoryA     int64   `json:"peak_memory_a_bytes,omitempty"`
	PeakMemoryB     int64   `json:"peak_memory_b_bytes,omitempty"`
	PeakMemoryError Maybe   `json:"peak_memory_error,omitzero"`
}

// TaskCounts says how far two graphs are the same. A pass that is cut into pieces counts once.
type TaskCounts struct {
	Both  int `json:"both"`
	OnlyA int `json:"only_a"`
	OnlyB int `json:"only_b"`
}

// Compare holds B against A. They need not be of the same graph, nor have
// traces: what cannot be compared is left out, and a warning says so.
func Compare(a, b results.Run) Comparison {
	c := Comparison{A: newSide(a.Result), B: newSide(b.Result), ByKind: map[string]KindComparison{}, ByRank: []RankComparison{}, Warnings: []string{}}
	step := c.A.StepTime
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

// Fraction divides a difference by a whole; a whole of 0 gives 0.
func Fraction(difference, of float64) float64 {
	if of == 0 {
		return 0
	}
	return difference / of
}

// peakDifference returns by how much a peak exceeds another, as a fraction of it; a
// peak of 0 is not known.
func peakDifference(a, b int64) Maybe {
	if a == 0 || b == 0 {
		return Maybe(unknown())
	}
	return Maybe(Fraction(float64(b)-float64(a), float64(a)))
}

func newSide(r results.Result) Side {
	s := Side{Name: r.Name, Schedule: r.Schedule, ScheduleText: r.ScheduleText(), Kind: r.Kind, Steps: r.StepCount(), StepTime: r.StepTime, Bubble: Maybe(r.Bubble.Makespan), PeakMemory: r.PeakMemory()}
	if !r.Split() {
		s.Parts = Parts{unknown(), unknown(), unknown(), unknown()}
		return s
	}
	n := float64(len(r.Ranks))
	for _, rank := range r.Ranks {
		s.Parts.Compute += (rank.Compute + rank.Optimizer) / n
		s.Parts.Communication += rank.ExposedCommunication / n
		s.Parts.Dispatch += results.OrZero(rank.Dispatch) / n
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

// compareTasks fills what follows from the tasks themselves.
func (c *Comparison) compareTasks(a, b *graph.Trace) {
	counts := map[graph.Task]int{} // how many more A has
	var tasks int                  // of A
	tally := func(t *graph.Trace, sign int, add func(k *KindComparison, tasks int, s float64)) {
		for i, task := range t.Graph.Tasks() {
			kind := c.ByKind[task.Kind.String()]
			whole := 1
			if task.Kind.Compute() && task.Part > 0 {
				whole = 0 // a further piece of a pass that is cut
			}
			add(&kind, whole, t.Span(i).Duration().Seconds())
			c.ByKind[task.Kind.String()] = kind
			task.Stream, task.Bytes = 0, 0 // the same work, wherever it queues
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

// warn says what the comparison lacks, and what speaks against it.
func (c *Comparison) warn(a, b results.Run) {
	add := func(format string, args ...any) { c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...)) }
	if x, y := results.GraphText(a.Result), results.GraphText(b.Result); x != y {
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
		if !run.Result.Split() {
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
		if run.Result.Kind == results.Measured && len(run.Result.Ranks) > 0 && run.Result.Ranks[0].Dispatch == nil && run.Result.Split() {
			add("%s does not know when tasks were ready, so that its dispatch counts as waiting", side)
		}
	}
}

// WriteJSON writes the comparison as an indented JSON object.
func (c Comparison) WriteJSON(w io.Writer) error { return files.WriteJSON(w, c) }

// Columns heads the columns of both runs: predicted and measured, or A and B.
func (c Comparison) Columns() (a, b string) {
	if c.A.Kind == c.B.Kind {
		return "A", "B"
	}
	return c.A.Kind, c.B.Kind
}
