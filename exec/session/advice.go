package session

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim"
	"psim/configs"
)

// Tensors of advised settings take half of the free memory, or at most this share of
// it: small processes hold twice as much as their tensors (the heap beside the ledgers
// in docs/executed.md), large ones little more.
const (
	roomyShare = 0.5
	fullShare  = 0.8
)

// advice names a number of workers, and settings for --set, with either of which the
// tensors of a run fit with room to spare; it is empty where none of those tried does.
func (r *Run) advice(free int64) string {
	var ways []string
	if devices := r.fewer(free); devices > 0 {
		ways = append(ways, fmt.Sprintf("use fewer workers (--gpus %d)", devices))
	}
	if sets := r.settings(free); sets != nil {
		ways = append(ways, "--set "+strings.Join(sets, " --set ")+" would fit")
	}
	return strings.Join(ways, ", or ")
}

// fewer finds the largest number of devices with fewer replicas of the same batch each
// that fits; 0 where none does.
func (r *Run) fewer(free int64) int {
	samples, replicas := r.Plan.Staged.Batch(0), max(1, r.Config.Parallel.Data)
	fits := func(share float64) int {
		for n := replicas - 1; n >= 1; n-- {
			need, err := needed(r.Config, fmt.Sprint("parallel.data=", n), fmt.Sprint("batch.global=", samples*int64(n)))
			if err == nil && need <= share*float64(free) {
				return r.Plan.Graph.Ranks() / replicas * n
			}
		}
		return 0
	}
	return cmp.Or(fits(roomyShare), fits(fullShare))
}

// settings finds those of a smaller step that fits, nil where none does.
func (r *Run) settings(free int64) []string {
	list := r.smaller()
	needs := make([]float64, len(list))
	for i, sets := range list {
		need, err := needed(r.Config, sets...)
		if err != nil {
			need = math.Inf(1)
		}
		needs[i] = need
	}
	for _, share := range []float64{roomyShare, fullShare} {
		if i := slices.IndexFunc(needs, func(need float64) bool { return need <= share*float64(free) }); i >= 0 {
			return list[i]
		}
	}
	return nil
}

// smaller lists settings of ever smaller steps: microbatches down to one sample, then
// sequences down to 64 tokens, and then the same with sgd, which keeps nothing.
func (r *Run) smaller() (list [][]string) {
	samples := r.Plan.Staged.Samples
	micro := slices.Max(samples)
	for micro > 1 {
		micro /= 2
		list = append(list, r.batch(micro*int64(len(samples)), micro))
	}
	for tokens := r.Plan.Network.TokensPerSample / 2; tokens >= 64; tokens /= 2 {
		list = append(list, append(r.batch(int64(len(samples)), 1), fmt.Sprint("model.sequence_length=", tokens)))
	}
	for _, sets := range slices.Clone(list) {
		list = append(list, append(sets, "train.optimizer=sgd"))
	}
	return list
}

// batch returns the settings that give every replica so many samples, in microbatches
// of so many, or its share of that where the batch has shards.
func (r *Run) batch(samples, micro int64) []string {
	w := r.Plan.Staged
	var most int64 // of the replica with the most
	for _, n := range w.Samples {
		most += n
	}
	sets := []string{fmt.Sprint("batch.global=", samples*w.Total()/most)}
	if r.Config.Defined("batch.micro") {
		sets = append(sets, fmt.Sprint("batch.micro=", micro))
	}
	return sets
}

// needed returns the bytes of the tensors of all devices under further settings.
func needed(c *configs.Config, sets ...string) (float64, error) {
	next, err := c.With(sets...)
	if err != nil {
		return 0, err
	}
	next.Machine = c.Machine // that of this machine, which no setting names
	r := &Run{Config: next}
	if err := r.plan(); err != nil {
		return 0, err
	}
	return r.need()
}

// need returns the bytes of the tensors of all devices of this machine.
func (r *Run) need() (need float64, err error) {
	simulation, err := psim.Simulate(r.Plan)
	for rank, summary := range simulation.Summary.Ranks {
		if r.here == nil || slices.Contains(r.here, rank) {
			need += float64(summary.PeakMemory)
		}
	}
	return need, err
}
