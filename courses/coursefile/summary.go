package coursefile

import (
	"io"
	"math"

	"psim/internal/files"
	"psim/results"
)

// summary holds what homework 5's run_benchmarks.py saves.
type summary struct {
	Config struct {
		Epochs     int `json:"epochs"`
		Dropped    int `json:"warmup_epochs_dropped"`
		SplitBatch int `json:"pipeline_batch_size,omitempty"`
		Chunks     int `json:"pipeline_n_chunk,omitempty"`
	} `json:"config"`
	Data struct {
		One *row `json:"single_gpu,omitempty"`
		Two *row `json:"two_gpu,omitempty"`
		speedups
	} `json:"data_parallel"`
	Split split `json:"pipeline_parallel"`
}

// A split has the runs that divide the network.
type split struct {
	Model    *row `json:"model_parallel,omitempty"`
	Pipeline *row `json:"pipeline_parallel,omitempty"`
	speedups
	// GPipe is a pipeline whose backwards overlap, too. The script does not run it.
	GPipe *compared `json:"gpipe,omitempty"`
}

// gpipeRow returns the row of GPipe; nil if there is none.
func (s split) gpipeRow() *row {
	if s.GPipe == nil {
		return nil
	}
	return &s.GPipe.row
}

// A compared row says how much better it is than model parallelism.
type compared struct {
	row
	speedups
}

// A row has the time of an epoch and the tokens per second, over all ranks.
type row struct {
	Time      *float64 `json:"time_mean"`
	TimeStd   *float64 `json:"time_std"`
	Tokens    *float64 `json:"tok_mean"`
	TokensStd *float64 `json:"tok_std"`
}

// speedups say how much better the second row is than the first.
type speedups struct {
	Time   *float64 `json:"speedup_time_reduction_x,omitempty"`
	Tokens *float64 `json:"speedup_throughput_x,omitempty"`
}

// Summary returns the file that homework 5's run_benchmarks.py would save for results with
// epochs: of data parallelism on one and two devices, of model and of pipeline parallelism, as
// far as they are given. A result with the schedule gpipe is not the homework's own pipeline, and
// has a name of its own. Results without epochs are left out.
func Summary(results ...results.Result) files.File {
	var s summary
	for _, r := range results {
		if r.Epochs != nil {
			s.add(r)
		}
	}
	s.Data.speedups = speedup(s.Data.One, s.Data.Two)
	s.Split.speedups = speedup(s.Split.Model, s.Split.Pipeline)
	if s.Split.GPipe != nil {
		s.Split.GPipe.speedups = speedup(s.Split.Model, &s.Split.GPipe.row)
	}
	render := func(w io.Writer) error { return files.WriteJSON(w, s) }
	return files.File{Path: "performance_summary.json", Render: render}
}

// add adds a result with epochs.
func (s *summary) add(r results.Result) {
	e := r.Epochs
	s.Config.Epochs, s.Config.Dropped = max(s.Config.Epochs, e.Number+e.Dropped), max(s.Config.Dropped, e.Dropped)
	line := newRow(*e)
	switch m := modeOf(r); {
	case m.Data && len(r.Ranks) == 1:
		s.Data.One = &line
	case m.Data:
		s.Data.Two = &line
	case m.Name == "model":
		s.Split.Model = &line
	case r.Schedule == "gpipe":
		s.Split.GPipe = &compared{row: line}
	default:
		s.Split.Pipeline = &line
		s.Config.Chunks = r.Microbatches
	}
	if !modeOf(r).Data {
		s.Config.SplitBatch = int(math.Round(samples(r)))
	}
}

func newRow(e results.Epochs) row {
	x := row{Time: &e.Time, TimeStd: &e.TimeStd, Tokens: &e.Throughput.Tokens, TokensStd: new(float64)}
	if e.ThroughputStd != nil {
		x.TokensStd = &e.ThroughputStd.Tokens
	}
	return x
}

func speedup(before, after *row) (s speedups) {
	if before != nil && after != nil && *after.Time > 0 && *before.Tokens > 0 {
		x, y := *before.Time / *after.Time, *after.Tokens / *before.Tokens
		s = speedups{&x, &y}
	}
	return s
}
