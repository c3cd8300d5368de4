package coursefile

import (
	"fmt"
	"io"
	"math"

	"psim/internal/files"
	"psim/results"
)

// The sizes of homework 4 of CMU's 11-868 (homework 5 since autumn 2025), which are not in
// its files.
const (
	pairs       = 5000 // of sentences, in an epoch
	pairTokens  = 128  // of a pair, cut or padded
	deviceBatch = 64   // of a data-parallel rank
	splitBatch  = 32   // of a model-parallel or pipeline run
)

// An epoch is what run_data_parallel.py saves after each epoch of a rank. It also saves a
// BLEU score; psim does not translate, and writes none.
type epoch struct {
	Loss   *float64 `json:"validation_loss,omitempty"`
	Time   *float64 `json:"training_time"`
	Tokens *float64 `json:"tokens_per_sec"`
}

// steps returns how many steps an epoch of the homework has with a batch of all replicas.
func steps(batch float64) float64 { return math.Ceil(pairs / math.Max(1, math.Round(batch))) }

// validation returns the validation loss after an epoch that counts, or nil if it is not
// known.
func validation(r results.Result, index int) *float64 {
	if r.Measurement == nil || r.Epochs == nil || index+r.Epochs.Dropped >= len(r.ValidationLoss) {
		return nil
	}
	return &r.ValidationLoss[index+r.Epochs.Dropped]
}

// Epochs lists the files that homework 4's run_data_parallel.py would save for the epochs of
// a result, one for each rank: rank0_results_epoch0.json. Without epochs there are no files.
// The tokens per second are those of the rank by a clock that waits for the device; the
// homework's clock does not.
func Epochs(r results.Result) []files.File {
	if r.Epochs == nil {
		return nil
	}
	var list []files.File
	e, ranks := *r.Epochs, float64(len(r.Ranks))
	each := e.Each
	if len(each) == 0 {
		each = []results.Epoch{{Time: e.Time, Throughput: e.Throughput}}
	}
	for index, one := range each {
		for rank := range r.Ranks {
			seconds, tokens := one.Time, one.Throughput.Tokens/ranks
			if len(one.RankTimes) > rank {
				seconds = one.RankTimes[rank]
			}
			list = append(list, files.File{
				Path: fmt.Sprintf("rank%d_results_epoch%d.json", rank, index),
				Render: func(w io.Writer) error {
					return files.WriteJSON(w, epoch{Loss: validation(r, index), Time: &seconds, Tokens: &tokens})
				},
			})
		}
	}
	return list
}
