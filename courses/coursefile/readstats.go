package coursefile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"psim/courses/modes"
	"psim/results"
	"psim/schedules/graph"
)

// statsName matches the names of files of CS1390's train.py.
var statsName = regexp.MustCompile(`^stats_(ddp|fsdp|model|pipeline)(\d+)\.json$`)

// The largest numbers that a file may have: of workers, and of seconds since 1970.
const (
	mostWorkers = 1 << 16
	longest     = 9.2e9
)

// readStats reads what train.py has saved for a run of a mode.
func readStats(m modes.Mode, data []byte) (results.Run, error) {
	var s stats
	var object map[string]json.RawMessage
	if err := cmp.Or(decode(data, &s), decode(data, &object)); err != nil {
		return results.Run{}, err
	}
	switch {
	case s.Workers < 1 || s.Workers > mostWorkers:
		return results.Run{}, missing(object, "num_workers", "it must be the number of workers, as train.py saves it")
	case s.Batches < 1 || s.Batches > 1<<30:
		return results.Run{}, missing(object, "num_batches", "it must be the number of batches, as train.py saves it")
	case s.BatchSize < 0 || s.BatchSize > 1<<30:
		return results.Run{}, missing(object, "batch_size", "it must be the samples of a batch, as train.py saves it")
	}
	workers, err := s.workers(object)
	switch {
	case err != nil:
		return results.Run{}, err
	case m.Data:
		return s.dataRun(m, workers)
	}
	return s.splitRun(m, workers)
}

// workers reads the objects of the workers, which are named by their ranks.
func (s stats) workers(object map[string]json.RawMessage) ([]worker, error) {
	const wrong = "%q is %s: num_workers is %d, so there must be workers 0 to %d"
	workers := make([]worker, s.Workers)
	for i := range workers {
		key := strconv.Itoa(i)
		raw, there := object[key]
		if !there {
			return nil, fmt.Errorf(wrong, key, "missing", s.Workers, s.Workers-1)
		}
		if err := cmp.Or(decode(raw, &workers[i]), null(raw), workers[i].check()); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
	}
	if key := strconv.Itoa(s.Workers); object[key] != nil {
		return nil, fmt.Errorf(wrong, key, "there", s.Workers, s.Workers-1)
	}
	return workers, nil
}

// missing says that a key is missing, or what its value should have been.
func missing(object map[string]json.RawMessage, key, right string) error {
	if raw, there := object[key]; there {
		return fmt.Errorf("%s is %s; %s", key, raw, right)
	}
	return fmt.Errorf("%s is missing; %s", key, right)
}

// null refuses a time that is null, which would otherwise count as 0.
func null(raw []byte) error {
	var w struct {
		Times []*float64 `json:"batches_times"`
	}
	if err := decode(raw, &w); err != nil || !slices.Contains(w.Times, nil) {
		return err
	}
	return fmt.Errorf("batches_times[%d] is null; it must be a time in seconds", slices.Index(w.Times, nil))
}

// check refuses what cannot be a time.
func (w worker) check() error {
	for _, t := range []struct {
		key   string
		value *float64
	}{
		{"computation_time", w.Computation}, {"communication_time", w.Communication},
		{"optimizer_update_time", w.Optimizer}, {"total_time", w.Total},
	} {
		if t.value != nil && !(*t.value >= 0 && *t.value <= longest) {
			return fmt.Errorf("%s is %g; it must be seconds, 0 to %g", t.key, *t.value, longest)
		}
	}
	for i, t := range w.Times {
		if !(t >= 0 && t <= longest) {
			return fmt.Errorf("batches_times[%d] is %g; it must be a time in seconds, 0 to %g", i, t, longest)
		}
		if i%2 == 1 && t < w.Times[i-1] {
			return fmt.Errorf("batches_times[%d] ends at %g, before it starts at %g; "+
				"there must be a start and an end for every forward and backward", i, t, w.Times[i-1])
		}
	}
	return nil
}

// dataRun makes a result of data-parallel workers.
func (s stats) dataRun(m modes.Mode, workers []worker) (results.Run, error) {
	r := s.result(m)
	r.Stages, r.Microbatches, r.DataParallel = 1, 1, s.Workers
	batches, assumed := float64(s.Batches), false
	for i, w := range workers {
		if w.Total == nil {
			return results.Run{}, fmt.Errorf(`"%d": total_time is missing; it must be seconds, as train.py saves it`, i)
		}
		parts := known(w.Computation) + known(w.Communication) + known(w.Optimizer)
		total := *w.Total
		if parts > 0 && s.Batches > 1 && total > parts*math.Sqrt(batches) { // parts of a batch, total of all
			total /= batches
		} else {
			assumed = assumed || s.Batches > 1
		}
		r.StepTime = max(r.StepTime, total, parts)
		r.Ranks[i] = results.RankResult{
			Rank: i, Compute: known(w.Computation), Optimizer: known(w.Optimizer),
			Communication: known(w.Communication), ExposedCommunication: known(w.Communication),
		}
	}
	for i, w := range workers {
		if rank := &r.Ranks[i]; w.Computation != nil {
			rank.Idle = max(0, r.StepTime-rank.Compute-rank.ExposedCommunication-rank.Optimizer)
		} else {
			*rank = results.RankResult{Rank: i}
		}
	}
	r.Makespan = r.StepTime
	r.Measurement.StepTimeMean, r.Measurement.StepTimeMedian = r.StepTime, r.StepTime
	s.setRates(&r)
	if assumed {
		r.Warnings = append(r.Warnings, fmt.Sprintf("its times are taken as means of a batch, as the course's own "+
			"runs save them; if they are sums over the %[1]d batches, a step is %[1]d times shorter. The course's "+
			"plot.py takes total_time as the sum, so that its throughput is %[1]d times the one here", s.Batches))
	}
	return results.Run{Result: r}, nil
}

// result starts a result of a mode. Its memory and its bubble are not known.
func (s stats) result(m modes.Mode) results.Result {
	return results.Result{
		Schema: results.Schema, Kind: results.Measured, Name: m.Config, Schedule: m.Schedule, FullySharded: m.Sharded,
		VirtualStages: 1, TensorParallel: 1, Devices: s.Workers, Bubble: results.UnknownBubble(), FitsMemory: true,
		Ranks: make([]results.RankResult, s.Workers), Warnings: []string{},
		Measurement: &results.Measurement{RunsMade: 1, TimesComparable: true, Steps: []float64{}},
	}
}

// setRates sets the throughput. Data-parallel workers have a batch each.
func (s stats) setRates(r *results.Result) {
	if r.StepTime > 0 {
		r.Throughput.Samples = float64(s.BatchSize*r.DataParallel) / r.StepTime
	}
}

// splitRun makes a result and the trace of the first batch of workers that have a part
// of the network each.
func (s stats) splitRun(m modes.Mode, workers []worker) (results.Run, error) {
	times, microbatches, err := s.batches(workers)
	if err != nil {
		return results.Run{}, err
	}
	trace, err := firstBatch(m, times[0], microbatches)
	if err != nil {
		return results.Run{}, err
	}
	info := results.Info{
		Name: m.Config, Schedule: m.Schedule, Stages: s.Workers, VirtualStages: 1, Microbatches: microbatches,
		DataParallel: 1, TensorParallel: 1,
	}
	r := results.NewResult(results.Measured, trace, graph.Summarize(trace), info)
	durations, err := s.durations(workers, times)
	if err != nil {
		return results.Run{}, err
	}
	r.Measurement = results.NewMeasurement(durations...)
	r.Measurement.RunsMade, r.Measurement.TimesComparable = 1, true
	r.StepTime, r.FitsMemory = r.Measurement.StepTimeMean, true
	for i := range r.Ranks {
		r.Ranks[i].Compute = meanBusy(times, i)
		r.Ranks[i].Idle = max(0, r.StepTime-r.Ranks[i].Compute)
	}
	s.setRates(&r)
	r.Warnings = append(r.Warnings, "it has only forwards and backwards: communication and updates count as idle")
	return results.Run{Result: r, Trace: trace}, nil
}

// durations returns how long the batches take: each until the next, which starts after the
// update. The last ends with its update, which has no times, when the total time is over, but it
// takes no longer than the longest of the others.
func (s stats) durations(workers []worker, times [][][]float64) ([]time.Duration, error) {
	list := make([]time.Duration, s.Batches)
	first, _ := extent(times[0])
	for b, batch := range times {
		start, end := extent(batch)
		if b+1 < s.Batches {
			if end, _ = extent(times[b+1]); end <= start {
				return nil, fmt.Errorf("batches_times: batch %d does not start after batch %d; "+
					"there must be the times of one batch after the other", b+1, b)
			}
			list[b] = seconds(end - start)
			continue
		}
		whole := end
		for _, w := range workers {
			whole = max(whole, first+known(w.Total))
		}
		list[b] = seconds(whole - start)
		if b > 0 {
			list[b] = max(seconds(end-start), min(list[b], slices.Max(list[:b])))
		}
	}
	return list, nil
}
