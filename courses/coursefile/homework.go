package coursefile

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"psim/courses/modes"
	"psim/results"
)

// A homework holds what the files and logs of homework 4 and 5 say about one run.
type homework struct {
	modes.Mode
	gpipe   bool    // the pipeline is GPipe, and not the homework's own
	workers int     // ranks, or devices of one process
	batch   float64 // over all replicas; 0 is the homework's own
	chunks  int     // microbatches of a pipeline; 0 is the homework's own
	steps   float64 // of an epoch, if a log says; 0 otherwise
	// number is how many epochs count, and dropped how many before them do not; 0 if that
	// is not known.
	number, dropped int
	// ranks holds the times of an epoch on each rank, in seconds: the means over the epochs.
	ranks    []results.RankEpoch
	epochs   [][]float64    // times of every epoch by rank; nil if only the means are known
	tokens   float64        // per second as printed, over all ranks
	printed  []float64      // the same of every epoch
	losses   results.Losses // of validation, after every epoch; nil if one is not known
	warnings []string
}

// gpipeName names a result of GPipe, which the homework's scripts do not run.
const gpipeName = "gpt2-gpipe"

// result turns epochs into steps. What a step is made of is not known.
func (h homework) result(source string) results.Result {
	h.assume()
	r := results.Result{
		Schema: results.Schema, Kind: results.Measured, Name: "gpt2-hw4", Schedule: h.Schedule,
		Stages: 1, VirtualStages: 1, Microbatches: 1, DataParallel: 1, TensorParallel: 1, Devices: h.workers,
		Bubble: results.UnknownBubble(), FitsMemory: true, Ranks: make([]results.RankResult, h.workers),
		Work: results.Work{SequenceLength: pairTokens},
	}
	for i := range r.Ranks {
		r.Ranks[i].Rank = i
	}
	switch {
	case h.Data:
		r.DataParallel = h.workers
	case h.Name == "pipeline":
		if h.gpipe {
			r.Name = gpipeName
		}
		r.Stages, r.Microbatches = h.workers, 4
		if h.chunks > 0 {
			r.Microbatches = h.chunks
		}
	default:
		r.Stages = h.workers
	}
	r.Measurement = h.measurement()
	r.Source = source
	r.StepTime = r.StepTimeMean
	r.Makespan = r.StepTime
	h.setRates(&r)
	h.setEpochs(&r)
	return r
}

// assume takes the homework's own batch, and the steps of its pairs, if they are not given.
func (h *homework) assume() {
	switch {
	case h.batch == 0 && h.steps > 0:
		h.batch = math.Ceil(pairs / h.steps)
	case h.batch == 0 && h.Data:
		h.batch = float64(deviceBatch * h.workers)
	case h.batch == 0:
		h.batch = splitBatch
	}
	if h.steps == 0 {
		h.steps = steps(h.batch)
	}
}

// slowest returns the mean time of an epoch on the slowest rank, and its deviation.
func (h homework) slowest() results.RankEpoch {
	return slices.MaxFunc(h.ranks, func(a, b results.RankEpoch) int { return cmp.Compare(a.Time, b.Time) })
}

// measurement makes a step of each epoch: the mean of its steps.
func (h homework) measurement() *results.Measurement {
	var durations []time.Duration
	for _, times := range h.epochs {
		durations = append(durations, seconds(slices.Max(times)/h.steps))
	}
	m := results.NewMeasurement(durations...)
	if len(h.epochs) == 0 {
		x := h.slowest()
		m.StepTimeMean, m.StepTimeMedian, m.StepTimeStd = x.Time/h.steps, x.Time/h.steps, x.TimeStd/h.steps
	}
	m.RunsMade, m.TimesComparable, m.ValidationLoss = 1, true, h.losses
	return m
}

// setRates sets the throughput by the time of epochs, and warns if the printed rate is far
// from it.
func (h homework) setRates(r *results.Result) {
	epoch := r.StepTime * h.steps
	assumed := fmt.Sprintf("it has the times of epochs, which are assumed to have %g steps: %d pairs in batches of %g",
		h.steps, pairs, h.batch)
	if last := h.lastBatch(); last < h.batch {
		assumed += fmt.Sprintf(", and a last one of %g; the time of a step is their mean", last)
	}
	r.Warnings = append([]string{assumed}, h.warnings...)
	if epoch <= 0 {
		return
	}
	r.Throughput = rateOf(epoch)
	if h.tokens > 0 && math.Abs(h.tokens/r.Throughput.Tokens-1) > 0.05 {
		r.UnwaitedTokens = &h.tokens
		r.Warnings = append(r.Warnings, fmt.Sprintf("it says %.0f tokens/s, %.3g times the %.0f that follow from the "+
			"time of an epoch and count here: the homework's clock stops before the device has finished",
			h.tokens, h.tokens/r.Throughput.Tokens, r.Throughput.Tokens))
	}
	r.TokensPerDevice = r.Throughput.Tokens / float64(r.Devices)
}

// lastBatch returns the pairs that are left for the last step of an epoch.
func (h homework) lastBatch() float64 { return max(0, pairs-(h.steps-1)*h.batch) }

// rateOf divides the work of an epoch by its time.
func rateOf(seconds float64) results.Throughput {
	return results.Throughput{Samples: pairs / seconds, Tokens: pairs * pairTokens / seconds}
}

// setEpochs adds the epochs. Their number may be unknown.
func (h homework) setEpochs(r *results.Result) {
	if r.StepTime <= 0 {
		return
	}
	x := h.slowest()
	e := results.Epochs{
		Number: h.number, Dropped: h.dropped, Samples: pairs, Steps: int64(h.steps),
		Batch: int64(h.batch), LastBatch: int64(h.lastBatch()),
		Time: x.Time, TimeStd: x.TimeStd, Total: float64(h.number) * x.Time,
		Throughput: rateOf(x.Time), Ranks: h.ranks,
	}
	for _, times := range h.epochs {
		slowest := slices.Max(times)
		e.Each = append(e.Each, results.Epoch{Time: slowest, RankTimes: times, Throughput: rateOf(slowest)})
	}
	r.Epochs = &e
	if r.UnwaitedTokens == nil || h.printed == nil {
		return
	}
	unwaited := make([]results.Throughput, len(h.printed))
	for i, tokens := range h.printed {
		unwaited[i] = results.Throughput{Samples: tokens / pairTokens, Tokens: tokens}
	}
	e.SetUnwaited(unwaited)
}

// An epochLine is an epoch of a rank, in a file or a line of a log.
type epochLine struct {
	rank, index     int
	seconds, tokens float64
	loss            *float64 // of validation
}

// take adds the epochs of all ranks. If there are several, the first is left out as a
// warm-up, as the homework advises.
func (h *homework) take(lines []epochLine) error {
	ranks := 0
	at := map[int]map[int]epochLine{} // by epoch, then by rank
	for _, l := range lines {
		if !(l.seconds > 0 && l.seconds <= longest) || !(l.tokens >= 0 && l.tokens <= 1e300) {
			return fmt.Errorf("epoch %d of rank %d: its time is %g s and its rate %g tokens/s; "+
				"the time must be above 0 and at most %g s, the rate 0 or more",
				l.index, l.rank, l.seconds, l.tokens, longest)
		}
		if at[l.index] == nil {
			at[l.index] = map[int]epochLine{}
		}
		at[l.index][l.rank], ranks = l, max(ranks, l.rank+1)
	}
	maps.DeleteFunc(at, func(_ int, byRank map[int]epochLine) bool { return len(byRank) < ranks })
	if len(at) == 0 {
		return fmt.Errorf("no epoch is there of all ranks 0 to %d; "+
			"run_data_parallel.py saves rank0_results_epoch0.json and so on for each", ranks-1)
	}
	h.validate(at)
	if len(at) > 1 && at[0] != nil {
		delete(at, 0)
		h.dropped = 1
		h.warnings = append(h.warnings, "epoch 0 is left out as a warm-up")
	}
	n := float64(len(at))
	for _, index := range slices.Sorted(maps.Keys(at)) {
		times, printed := make([]float64, ranks), 0.0
		for rank := range times {
			times[rank] = at[index][rank].seconds
			printed += at[index][rank].tokens
		}
		h.tokens += printed / n
		h.epochs, h.printed = append(h.epochs, times), append(h.printed, printed)
	}
	h.number = len(h.epochs)
	h.meanRanks(ranks)
	if h.Data {
		h.workers = ranks
	}
	return nil
}

// validate sets the validation losses: the means over the ranks.
func (h *homework) validate(at map[int]map[int]epochLine) {
	for _, index := range slices.Sorted(maps.Keys(at)) {
		mean := 0.0
		for rank := range at[index] {
			if at[index][rank].loss == nil {
				h.losses = nil
				return
			}
		}
		for rank := range len(at[index]) {
			mean += *at[index][rank].loss / float64(len(at[index]))
		}
		h.losses = append(h.losses, mean)
	}
}

// meanRanks averages the epochs of every rank.
func (h *homework) meanRanks(ranks int) {
	for rank := range ranks {
		x, squares := results.RankEpoch{Rank: rank}, 0.0
		for _, times := range h.epochs {
			x.Time += times[rank] / float64(h.number)
		}
		for _, times := range h.epochs {
			squares += (times[rank] - x.Time) * (times[rank] - x.Time)
		}
		x.TimeStd = math.Sqrt(squares / float64(h.number))
		h.ranks = append(h.ranks, x)
	}
}
