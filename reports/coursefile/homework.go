package coursefile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"psim/reports"
)

// A homework holds what the files and logs of homework 4 and 5 say of one run.
type homework struct {
	mode
	workers int     // ranks, or devices of one process
	batch   float64 // over all replicas; 0 is the homework's own
	chunks  int     // microbatches of a pipeline; 0 is the homework's own
	steps   float64 // of an epoch, where a log tells; else 0
	// epochs are the times of the slowest rank, in seconds. Where only their mean and
	// deviation are known, these stand in mean and deviation.
	epochs          []float64
	mean, deviation float64
	tokens          float64 // per second as printed, over all ranks
	warnings        []string
}

// result turns epochs into steps. Nothing is known of what these are made of.
func (h homework) result(source string) reports.Result {
	if h.batch == 0 {
		h.batch = splitBatch
		if h.data {
			h.batch = float64(deviceBatch * h.workers)
		}
	}
	r := reports.Result{
		Schema: reports.Schema, Kind: reports.Measured, Name: "gpt2-hw4", Schedule: h.schedule,
		Stages: 1, VirtualStages: 1, Microbatches: 1, DataParallel: 1, TensorParallel: 1, Devices: h.workers,
		Bubble: reports.Unknown(), FitsMemory: true, Ranks: make([]reports.RankResult, h.workers),
		Work: reports.Work{SequenceLength: pairTokens},
	}
	for i := range r.Ranks {
		r.Ranks[i].Rank = i
	}
	switch {
	case h.data:
		r.DataParallel = h.workers
	case h.name == "pipeline":
		r.Stages, r.Microbatches = h.workers, 4
		if h.chunks > 0 {
			r.Microbatches = h.chunks
		}
	default:
		r.Stages = h.workers
	}
	if h.steps == 0 {
		h.steps = steps(r.DataParallel, h.batch)
	}
	r.Measurement = h.measurement()
	r.Source = source
	r.StepTime = r.StepTimeMean
	r.Makespan = r.StepTime
	h.setRates(&r)
	return r
}

// measurement holds a step for each epoch, the mean of its steps.
func (h homework) measurement() *reports.Measurement {
	var durations []time.Duration
	for _, e := range h.epochs {
		durations = append(durations, seconds(e/h.steps))
	}
	m := reports.NewMeasurement(durations...)
	if len(h.epochs) == 0 {
		m.StepTimeMean, m.StepTimeMedian, m.StepTimeStd = h.mean/h.steps, h.mean/h.steps, h.deviation/h.steps
	}
	m.RunsMade, m.TimesComparable = 1, true
	return m
}

// setRates sets the throughput by the time of epochs, and says how far what was printed
// is from it.
func (h homework) setRates(r *reports.Result) {
	epoch := r.StepTime * h.steps
	r.Warnings = append([]string{fmt.Sprintf("it tells the time of epochs, which are taken to have %g steps: %d pairs in batches of %g", h.steps, pairs, h.batch)}, h.warnings...)
	if epoch <= 0 {
		return
	}
	r.Throughput = reports.Throughput{Samples: pairs / epoch, Tokens: pairs * pairTokens / epoch}
	if h.tokens > 0 && math.Abs(h.tokens/r.Throughput.Tokens-1) > 0.05 {
		r.CourseTokens = &h.tokens
		r.Warnings = append(r.Warnings, fmt.Sprintf("it says %.0f tokens/s, %.3g times the %.0f that follow from the time of an epoch and count here: the homework's clock stops before the device has finished",
			h.tokens, h.tokens/r.Throughput.Tokens, r.Throughput.Tokens))
	}
	r.TokensPerDevice = r.Throughput.Tokens / float64(r.Devices)
}

// An epochLine is an epoch of a rank, in a file or a line of a log.
type epochLine struct {
	rank, index     int
	seconds, tokens float64
}

// take adds the epochs of all ranks. The first is a warm-up and left out where there
// are more, as the homework advises.
func (h *homework) take(lines []epochLine) error {
	ranks := 0
	at := map[int]map[int]epochLine{} // by epoch, then by rank
	for _, l := range lines {
		if !(l.seconds > 0 && l.seconds <= longest) || !(l.tokens >= 0 && l.tokens <= 1e300) {
			return fmt.Errorf("epoch %d of rank %d: its time is %g s and its rate %g tokens/s; both must be above 0", l.index, l.rank, l.seconds, l.tokens)
		}
		if at[l.index] == nil {
			at[l.index] = map[int]epochLine{}
		}
		at[l.index][l.rank], ranks = l, max(ranks, l.rank+1)
	}
	maps.DeleteFunc(at, func(_ int, byRank map[int]epochLine) bool { return len(byRank) < ranks })
	if len(at) == 0 {
		return fmt.Errorf("no epoch is there of all ranks 0 to %d; run_data_parallel.py saves rank0_results_epoch0.json and so on for each", ranks-1)
	}
	if len(at) > 1 && at[0] != nil {
		delete(at, 0)
		h.warnings = append(h.warnings, "epoch 0 is left out as a warm-up")
	}
	slow, fast, n := 0.0, 0.0, float64(len(at))
	for _, index := range slices.Sorted(maps.Keys(at)) {
		low, high := math.Inf(1), 0.0
		for rank := range ranks {
			l := at[index][rank]
			low, high = min(low, l.seconds), max(high, l.seconds)
			h.tokens += l.tokens / n
		}
		h.epochs = append(h.epochs, high)
		slow, fast = slow+high/n, fast+low/n
	}
	if slow > 1.001*fast {
		h.warnings = append(h.warnings, fmt.Sprintf("an epoch takes the slowest rank %.4g s and the fastest %.4g s; the slowest counts", slow, fast))
	}
	if h.data {
		h.workers = ranks
	}
	return nil
}
