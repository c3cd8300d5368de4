package questions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim"
	"psim/internal/units"
	"psim/results"
)

// A Run is a step of training, predicted or measured, of which the analysis questions
// ask: a mode (psim.ModeNames) on a number of workers.
type Run struct {
	Mode    string
	Workers int
	// Note says in what the run differs from the course's own, such as fewer samples.
	Note string
	// Run has its trace.
	results.Run
}

// courseWorkers lists the numbers of workers that the assignment has graphs of.
func courseWorkers(mode string) []int {
	if mode == "ddp" || mode == "fsdp" {
		return []int{1, 2, 4}
	}
	return []int{1, 2, 3}
}

// predictMode predicts a mode of the course on so many workers, with settings KEY=VALUE
// over its example.
func predictMode(ctx context.Context, name string, workers int, sets ...string) (Run, error) {
	mode, _, _, err := psim.ParseMode(fmt.Sprintf("%s=%d", name, workers))
	if err != nil {
		return Run{}, err
	}
	c, err := mode.Load(workers, "", sets...)
	if err != nil {
		return Run{}, err
	}
	p, err := psim.Predict(ctx, c)
	if err != nil {
		return Run{}, err
	}
	return Run{Mode: name, Workers: workers, Run: p.Run()}, nil
}

// predictAll predicts what some questions are about.
func predictAll(ctx context.Context, wanted []question) ([]Run, error) {
	var runs []Run
	for _, mode := range psim.ModeNames() {
		if !slices.ContainsFunc(wanted, func(q question) bool { return slices.Contains(q.modes, mode) }) {
			continue
		}
		for _, workers := range courseWorkers(mode) {
			r, err := predictMode(ctx, mode, workers)
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// series holds the runs of one mode, by workers.
type series []Run

// seriesOf picks the runs of a mode. There must be at least so many, each on another number of
// workers.
func seriesOf(runs []Run, mode string, least int) (series, error) {
	var s series
	for _, r := range runs {
		if r.Mode == mode {
			s = append(s, r)
		}
	}
	slices.SortFunc(s, func(a, b Run) int { return cmp.Compare(a.Workers, b.Workers) })
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

func (s series) last() Run { return s[len(s)-1] }

// on says how many workers there are: "on 1, 2 and 4 workers".
func (s series) on() string {
	var counts []string
	for _, r := range s {
		counts = append(counts, fmt.Sprint(r.Workers))
	}
	if len(s) == 1 {
		return "on " + units.Plural(s[0].Workers, "worker")
	}
	return "on " + list(counts) + " workers"
}

// each reads a number of every run.
func (s series) each(read func(Run) float64) []float64 {
	var numbers []float64
	for _, r := range s {
		numbers = append(numbers, read(r))
	}
	return numbers
}

// perWorker reads the mean over the ranks of a run.
func perWorker(read func(results.RankResult) float64) func(Run) float64 {
	return func(r Run) float64 { return sum(ranks(r, read)) / float64(len(r.Result.Ranks)) }
}

func ranks(r Run, read func(results.RankResult) float64) []float64 {
	var numbers []float64
	for _, rank := range r.Result.Ranks {
		numbers = append(numbers, read(rank))
	}
	return numbers
}

func computes(r results.RankResult) float64     { return r.Compute }
func updates(r results.RankResult) float64      { return r.Optimizer }
func communicates(r results.RankResult) float64 { return r.ExposedCommunication }
func waits(r results.RankResult) float64        { return r.Idle }
func passesOn(r results.RankResult) float64     { return r.Communication }
func inFlight(r results.RankResult) float64     { return float64(r.PeakInFlight) }
func sends(r results.RankResult) float64        { return float64(r.SentBytes) }
func persists(r results.RankResult) float64     { return float64(r.PersistentMemory) }

func stepTime(r Run) float64    { return r.Result.StepTime }
func throughput(r Run) float64  { return r.Result.Throughput.Samples }
func fullest(r Run) float64     { return float64(r.Result.PeakMemory()) }
func utilization(r Run) float64 { return perWorker(computes)(r) / r.Result.StepTime }

// speedups divides the throughput of every run by that on the fewest workers.
func (s series) speedups() []float64 {
	return s.each(func(r Run) float64 { return throughput(r) / throughput(s[0]) })
}

// gradients returns the bytes of a run's gradients, of the whole network.
func gradients(r Run) float64 {
	size := 2
	if r.Result.Precision == "fp32" {
		size = 4
	}
	return float64(r.Result.Parameters) * float64(size)
}

// alike says whether numbers are within a tenth of each other.
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

// near says whether a number is within a hundredth of another.
func near(x, y float64) bool { return x >= 0.99*y && x <= 1.01*y }

// list joins words: "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// written lists numbers in a form.
func written(numbers []float64, form func(float64) string) string {
	var words []string
	for _, x := range numbers {
		words = append(words, form(x))
	}
	return list(words)
}

func bytesText(x float64) string { return units.FormatBytes(int64(x)) }
func percent(x float64) string   { return figure(x, "fraction") }
func times(x float64) string     { return fmt.Sprintf("%.2f×", x) }
func whole(x float64) string     { return units.FormatCount(int64(math.RoundToEven(x))) }

// perSecond writes a rate with three digits.
func perSecond(x float64) string {
	digits := 2
	for limit := 10.0; digits > 0 && x >= limit; limit *= 10 {
		digits--
	}
	return fmt.Sprintf("%.*f", digits, x)
}
