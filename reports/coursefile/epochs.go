package coursefile

import (
	"fmt"
	"io"
	"math"

	"psim/internal/files"
	"psim/reports"
)

// The sizes of homework 4 of CMU's 11-868 (homework 5 since autumn 2025), which its
// files do not say.
const (
	pairs       = 5000 // of sentences, in an epoch
	pairTokens  = 128  // of a pair, cut or padded
	deviceBatch = 64   // of a data-parallel rank
	splitBatch  = 32   // of a model-parallel or pipeline run
)

// An epoch is what run_data_parallel.py saves after each epoch of a rank. psim trains no
// translation, so that it writes no BLEU.
type epoch struct {
	Loss   *float64 `json:"validation_loss,omitempty"`
	Time   *float64 `json:"training_time"`
	Tokens *float64 `json:"tokens_per_sec"`
}

// steps returns how many steps an epoch of the homework has, with so many replicas and a
// batch of so many samples over them all: each has its share of the pairs.
func steps(replicas int, batch float64) float64 {
	share := math.Ceil(pairs / float64(replicas))
	return math.Ceil(share / math.Max(1, math.Round(batch/float64(replicas))))
}

// epochOf returns the time of an epoch of the homework by a result of one step.
func epochOf(r reports.Result) (seconds, deviation float64) {
	n := steps(max(1, r.DataParallel), samples(r))
	if r.Measurement != nil {
		deviation = r.StepTimeStd
	}
	return r.StepTime * n, deviation * math.Sqrt(n)
}

// Epochs lists the files that homework 4's run_data_parallel.py would save of an epoch
// of 5000 pairs, one of each rank: rank0_results_epoch0.json. The tokens per second are
// those of the rank by a clock that waits for the device, which the homework's does not.
func Epochs(r reports.Result) []reports.File {
	var list []reports.File
	seconds, _ := epochOf(r)
	tokens := r.Throughput.Tokens / float64(len(r.Ranks))
	for i := range r.Ranks {
		list = append(list, reports.File{
			Path:   fmt.Sprintf("rank%d_results_epoch0.json", i),
			Render: func(w io.Writer) error { return files.WriteJSON(w, epoch{Time: &seconds, Tokens: &tokens}) },
		})
	}
	return list
}
