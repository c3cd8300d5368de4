package coursefile

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"psim/courses/modes"
	"psim/internal/files"
	"psim/results"
	"psim/schedules/graph"
)

// stats holds what CS1390's train.py saves for a run, apart from its workers.
type stats struct {
	Workers      int      `json:"num_workers"`
	Batches      int      `json:"num_batches"`
	BatchSize    int      `json:"batch_size"`
	LearningRate *float64 `json:"learning_rate"`
	Cores        *int     `json:"cores_per_worker"`
}

// A worker is what train.py saves for one worker. Model and pipeline parallel runs have the
// times of batches, and the others have the three parts.
type worker struct {
	Rank          int      `json:"rank"`
	Computation   *float64 `json:"computation_time,omitempty"`
	Communication *float64 `json:"communication_time,omitempty"`
	Optimizer     *float64 `json:"optimizer_update_time,omitempty"`
	Total         *float64 `json:"total_time"`
	// Times holds a start and an end for every forward, and then for every backward, of one
	// batch after the other.
	Times []float64 `json:"batches_times,omitempty"`
}

// modeOf returns the mode of a result. Every other schedule counts as a pipeline.
func modeOf(r results.Result) modes.Mode {
	for _, m := range modes.All() {
		if m.Schedule == r.Schedule && m.Sharded == r.FullySharded {
			return m
		}
	}
	return named("pipeline")
}

// The assignment's own settings, which train.py has as defaults and saves.
const (
	batches        = 5
	learningRate   = 1e-3
	coresPerWorker = 1
)

// Stats returns the file that CS1390's train.py would save for a run, predicted or measured:
// stats_ddp4.json. Given the traces of several steps it has a batch for each, and of a
// prediction the assignment's five, which are equal. Parts of a data-parallel step are means
// over the batches, and total_time is the sum, as the course's plot.py takes it. Communication
// is what no work hides, because the course's code waits for it.
func Stats(run results.Run, steps ...*graph.Trace) (files.File, error) {
	r := run.Result
	m := modeOf(r)
	file := files.File{Path: fmt.Sprintf("stats_%s%d.json", m.Name, len(r.Ranks))}
	if run.Trace == nil {
		return file, fmt.Errorf("%s: needs the trace of the run, for the times of its batches", file.Path)
	}
	if len(steps) == 0 {
		steps = slices.Repeat([]*graph.Trace{run.Trace}, batches)
	}
	object := map[string]any{
		"num_workers": len(r.Ranks), "num_batches": len(steps),
		"learning_rate": learningRate, "cores_per_worker": max(coresPerWorker, cores(r)),
	}
	if batch := math.Round(samples(r) / float64(max(1, r.DataParallel))); batch > 0 {
		object["batch_size"] = batch
	}
	total := r.StepTime * float64(len(steps))
	for i, rank := range r.Ranks {
		w := worker{Rank: i, Total: &total}
		if m.Data {
			w.Computation, w.Communication, w.Optimizer = &rank.Compute, &rank.ExposedCommunication, &rank.Optimizer
		} else {
			w.Times = stepTimes(steps, int32(i))
		}
		object[strconv.Itoa(i)] = w
	}
	file.Render = func(w io.Writer) error { return files.WriteJSON(w, object) }
	return file, nil
}

// cores returns the cores of a worker, 0 if it does not say.
func cores(r results.Result) int {
	if r.Measurement == nil {
		return 0
	}
	return r.CoresPerWorker
}

// stepTimes lists the times of a rank in steps that follow each other.
func stepTimes(steps []*graph.Trace, rank int32) (times []float64) {
	from := 0.0
	for _, t := range steps {
		for _, at := range batchTimes(t, rank) {
			times = append(times, from+at)
		}
		from += (t.End() - t.Startup()).Seconds()
	}
	return times
}

// samples returns the samples of a step, over all replicas.
func samples(r results.Result) float64 { return r.Throughput.Samples * r.StepTime }

// batchTimes lists when the forwards of a rank start and end, and then its backwards, in
// seconds.
func batchTimes(t *graph.Trace, rank int32) (times []float64) {
	var forwards, backwards []graph.Span
	for i, task := range t.Graph.Tasks() {
		switch {
		case task.Rank != rank || !task.Kind.Pass():
		case task.Kind == graph.Forward:
			forwards = append(forwards, t.Span(i))
		default:
			backwards = append(backwards, t.Span(i))
		}
	}
	for _, list := range [][]graph.Span{forwards, backwards} {
		slices.SortFunc(list, func(a, b graph.Span) int { return int(a.Start - b.Start) })
		for _, s := range list {
			times = append(times, s.Start.Seconds(), s.End.Seconds())
		}
	}
	return times
}
