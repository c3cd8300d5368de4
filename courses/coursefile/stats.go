package coursefile

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"psim/internal/files"
	"psim/reports"
	"psim/results"
	"psim/schedules/graph"
)

// stats holds what CS1390's train.py saves of a run, beside its workers.
type stats struct {
	Workers      int      `json:"num_workers"`
	Batches      int      `json:"num_batches"`
	BatchSize    int      `json:"batch_size"`
	LearningRate *float64 `json:"learning_rate"`
	Cores        *int     `json:"cores_per_worker"`
}

// A worker is what train.py saves of one. Model and pipeline parallel runs have times
// of batches, the others the three parts.
type worker struct {
	Rank          int      `json:"rank"`
	Computation   *float64 `json:"computation_time,omitempty"`
	Communication *float64 `json:"communication_time,omitempty"`
	Optimizer     *float64 `json:"optimizer_update_time,omitempty"`
	Total         *float64 `json:"total_time"`
	// Times are a start and an end for every forward, then for every backward, of one
	// batch after the other.
	Times []float64 `json:"batches_times,omitempty"`
}

// A mode is one of the four ways to train, as the course names it in files and psim in
// results.
type mode struct {
	name, config, schedule string
	data, sharded          bool
}

func modes() []mode {
	return []mode{
		{"ddp", "vgg16-cpu-ddp", "ddp", true, false},
		{"fsdp", "vgg16-cpu-fsdp", "ddp", true, true},
		{"model", "vgg16-cpu-model", "model-parallel", false, false},
		{"pipeline", "vgg16-cpu-pipeline", "gpipe", false, false},
	}
}

// modeOf returns the mode of a result: every pipeline counts as the course's.
func modeOf(r results.Result) mode {
	list := modes()
	i := slices.IndexFunc(list, func(m mode) bool { return m.schedule == r.Schedule && m.sharded == r.FullySharded })
	if i < 0 {
		i = len(list) - 1
	}
	return list[i]
}

// Stats returns the file that CS1390's train.py would save of a run, predicted or
// measured: stats_ddp4.json, of one batch, with the means of a measured run's steps
// as its times. Communication is what no work hides, because the course's code waits
// for it. The learning rate and the cores of a worker are left out.
func Stats(run results.Run) (reports.File, error) {
	r := run.Result
	m := modeOf(r)
	file := reports.File{Path: fmt.Sprintf("stats_%s%d.json", m.name, len(r.Ranks))}
	if !m.data && run.Trace == nil {
		return file, fmt.Errorf("%s: needs the trace of the run, for the times of its forwards and backwards", file.Path)
	}
	object := map[string]any{"num_workers": len(r.Ranks), "num_batches": 1}
	if batch := math.Round(samples(r) / float64(max(1, r.DataParallel))); batch > 0 {
		object["batch_size"] = batch
	}
	for i, rank := range r.Ranks {
		w := worker{Rank: i, Total: &r.StepTime}
		if m.data {
			w.Computation, w.Communication, w.Optimizer = &rank.Compute, &rank.ExposedCommunication, &rank.Optimizer
		} else {
			w.Times = batchTimes(run.Trace, int32(i))
		}
		object[strconv.Itoa(i)] = w
	}
	file.Render = func(w io.Writer) error { return files.WriteJSON(w, object) }
	return file, nil
}

// samples counts those of a step, over all replicas.
func samples(r results.Result) float64 { return r.Throughput.Samples * r.StepTime }

// batchTimes lists when the forwards of a rank start and end, and then its backwards,
// in seconds.
func batchTimes(t *graph.Trace, rank int32) (times []float64) {
	var forwards, backwards []graph.Span
	for i, task := range t.Graph.Tasks {
		switch {
		case task.Rank != rank || !task.Kind.Compute():
		case task.Kind == graph.Forward:
			forwards = append(forwards, t.Spans[i])
		default:
			backwards = append(backwards, t.Spans[i])
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
