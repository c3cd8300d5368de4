package questions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim"
	"psim/courses/modes"
	"psim/internal/units"
	"psim/results"
)

// A ModeRun is a step of training, predicted or measured, that the questions about graphs
// are about: a mode (package modes) on a number of workers.
type ModeRun struct {
	Mode    string
	Workers int
	// Note says how the run differs from the course's own, such as by fewer samples.
	Note string
	// Run has its trace.
	results.Run
}

// courseWorkers lists the numbers of workers that the assignment draws a mode on.
func courseWorkers(mode string) []int {
	if mode == "ddp" || mode == "fsdp" {
		return []int{1, 2, 4}
	}
	return []int{1, 2, 3}
}

// predictMode predicts a mode on a number of workers, with settings KEY=VALUE over its
// example.
func predictMode(ctx context.Context, name string, workers int, sets ...string) (ModeRun, error) {
	m, ok := modes.Find(name)
	if !ok {
		return ModeRun{}, fmt.Errorf("unknown mode %q", name)
	}
	c, err := m.Load(workers, "", sets...)
	if err != nil {
		return ModeRun{}, err
	}
	p, err := psim.Predict(ctx, c)
	if err != nil {
		return ModeRun{}, err
	}
	return ModeRun{Mode: name, Workers: workers, Run: p.Run()}, nil
}

// predictAll predicts the runs that some questions are about.
func predictAll(ctx context.Context, wanted []question) ([]ModeRun, error) {
	var runs []ModeRun
	for _, name := range modes.Names() {
		if !slices.ContainsFunc(wanted, func(q question) bool { return slices.Contains(q.Modes, name) }) {
			continue
		}
		for _, workers := range courseWorkers(name) {
			r, err := predictMode(ctx, name, workers)
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// series holds the runs of one mode, by workers.
type series []ModeRun

// seriesOf picks the runs of a mode, and fails if there are fewer than least, or two on the
// same number of workers.
func seriesOf(runs []ModeRun, mode string, least int) (series, error) {
	var s series
	for _, r := range runs {
		if r.Mode == mode {
			s = append(s, r)
		}
	}
	slices.SortFunc(s, func(a, b ModeRun) int { return cmp.Compare(a.Workers, b.Workers) })
	for i := 1; i < len(s); i++ {
		if s[i].Workers == s[i-1].Workers {
			return nil, fmt.Errorf("two runs of %s=%d; give one", mode, s[i].Workers)
		}
	}
	if len(s) < least {
		return nil, fmt.Errorf("%s of mode %s; at least %d are needed", units.Plural(len(s), "run"), mode, least)
	}
	return s, nil
}

func (s series) last() ModeRun { return s[len(s)-1] }

// on lists the numbers of workers: "on 1, 2 and 4 workers".
func (s series) on() string {
	if len(s) == 1 {
		return "on " + units.Plural(s[0].Workers, "worker")
	}
	workers := s.each(func(r ModeRun) float64 { return float64(r.Workers) })
	return "on " + written(workers, func(x float64) string { return fmt.Sprint(x) }) + " workers"
}

// each reads a number of every run.
func (s series) each(read func(ModeRun) float64) []float64 {
	var numbers []float64
	for _, r := range s {
		numbers = append(numbers, read(r))
	}
	return numbers
}

// speedups divides the throughput of every run by that on the fewest workers.
func (s series) speedups() []float64 {
	return s.each(func(r ModeRun) float64 { return throughput(r) / throughput(s[0]) })
}

// ranks reads a number of every rank of a run.
func ranks(r ModeRun, read func(results.RankResult) float64) []float64 {
	var numbers []float64
	for _, rank := range r.Result.Ranks {
		numbers = append(numbers, read(rank))
	}
	return numbers
}

func computes(r results.RankResult) float64 { return r.Compute }
func passesOn(r results.RankResult) float64 { return r.Communication }
func inFlight(r results.RankResult) float64 { return float64(r.PeakInFlight) }
func sends(r results.RankResult) float64    { return float64(r.SentBytes) }

// perWorker averages a number over the ranks of a run.
func perWorker(r ModeRun, read func(results.RankResult) float64) float64 {
	return total(ranks(r, read)) / float64(len(r.Result.Ranks))
}

func computing(r ModeRun) float64 { return perWorker(r, computes) }
func sending(r ModeRun) float64   { return perWorker(r, sends) }
func updating(r ModeRun) float64 {
	return perWorker(r, func(r results.RankResult) float64 { return r.Optimizer })
}
func communicating(r ModeRun) float64 {
	return perWorker(r, func(r results.RankResult) float64 { return r.ExposedCommunication })
}
func waiting(r ModeRun) float64 {
	return perWorker(r, func(r results.RankResult) float64 { return r.Idle })
}
func keeping(r ModeRun) float64 {
	return perWorker(r, func(r results.RankResult) float64 { return float64(r.PersistentMemory) })
}

func stepTime(r ModeRun) float64    { return r.Result.StepTime }
func throughput(r ModeRun) float64  { return r.Result.Throughput.Samples }
func fullest(r ModeRun) float64     { return float64(r.Result.PeakMemory()) }
func utilization(r ModeRun) float64 { return computing(r) / r.Result.StepTime }

// gradients returns the bytes of a run's gradients, of the whole network.
func gradients(r ModeRun) float64 {
	size := 2
	if r.Result.Precision == "fp32" {
		size = 4
	}
	return float64(r.Result.Parameters) * float64(size)
}

// alike reports whether numbers are within a tenth of each other.
func alike(numbers []float64) bool { return slices.Max(numbers) <= 1.1*slices.Min(numbers) }

func grows(numbers []float64) bool {
	for i := 1; i < len(numbers); i++ {
		if !(numbers[i] > numbers[i-1]) {
			return false
		}
	}
	return true
}

func falls(numbers []float64) bool {
	reversed := slices.Clone(numbers)
	slices.Reverse(reversed)
	return grows(reversed)
}

// near reports whether a number is within a hundredth of another.
func near(x, y float64) bool { return x >= 0.99*y && x <= 1.01*y }

// written lists numbers in a form: "a, b and c".
func written(numbers []float64, form func(float64) string) string {
	var words []string
	for _, x := range numbers {
		words = append(words, form(x))
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func bytesText(x float64) string { return units.FormatBytes(int64(x)) }
func percent(x float64) string   { return figure(x, "fraction") }
func times(x float64) string     { return fmt.Sprintf("%.2f×", x) }
func wholeText(x float64) string { return units.FormatCount(int64(math.RoundToEven(x))) }

// perSecond writes a rate with three digits.
func perSecond(x float64) string {
	digits := 2
	for limit := 10.0; digits > 0 && x >= limit; limit *= 10 {
		digits--
	}
	return fmt.Sprintf("%.*f", digits, x)
}
