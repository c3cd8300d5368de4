package session

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"psim"
	"psim/configs"
	"psim/internal/ram"
	"psim/internal/units"
)

// The tensors of a run may take half of the free memory, or at most this share: a small process
// holds twice as much as its tensors (the heap next to the ledgers in docs/executed.md), a
// large one little more.
const (
	roomyShare = 0.5
	fullShare  = 0.8
)

// advice names a number of workers, and settings for --set. With either of them the tensors of
// a run fit, with room to spare. It is empty if nothing that was tried does.
func (r *Trial) advice(free int64) string {
	var ways []string
	if devices := r.fewerDevices(free); devices > 0 {
		ways = append(ways, fmt.Sprintf("use fewer workers (--gpus %d)", devices))
	}
	if sets := r.fittingSettings(free); sets != nil {
		ways = append(ways, "--set "+strings.Join(sets, " --set ")+" would fit")
	}
	return strings.Join(ways, ", or ")
}

// fewerDevices finds the largest number of devices that fits, with fewer replicas of the same
// batch each; 0 if none does.
func (r *Trial) fewerDevices(free int64) int {
	samples, replicas := r.Experiment.Staged.Batch(0), max(1, r.Config.Parallel.Data)
	fits := func(share float64) int {
		for n := replicas - 1; n >= 1; n-- {
			sets := []string{fmt.Sprint("parallel.data=", n), fmt.Sprint("batch.global=", samples*int64(n))}
			need, err := bytesNeededWith(r.Config, sets...)
			if err == nil && need <= share*float64(free) {
				return r.Experiment.Graph.Ranks() / replicas * n
			}
		}
		return 0
	}
	return cmp.Or(fits(roomyShare), fits(fullShare))
}

// fittingSettings finds the settings of a smaller step that fits; nil if none does.
func (r *Trial) fittingSettings(free int64) []string {
	list := r.smallerSteps()
	needs := make([]float64, len(list))
	for i, sets := range list {
		need, err := bytesNeededWith(r.Config, sets...)
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

// smallerSteps lists settings of ever smaller steps: microbatches down to one sample, then
// sequences down to 64 tokens, and then the same with sgd, which keeps no state.
func (r *Trial) smallerSteps() (list [][]string) {
	samples := r.Experiment.Staged.Samples
	micro := slices.Max(samples)
	for micro > 1 {
		micro /= 2
		list = append(list, r.batchSettings(micro*int64(len(samples)), micro))
	}
	for tokens := r.Experiment.Network.TokensPerSample / 2; tokens >= 64; tokens /= 2 {
		sets := r.batchSettings(int64(len(samples)), 1)
		list = append(list, append(sets, fmt.Sprint("model.sequence_length=", tokens)))
	}
	for _, sets := range slices.Clone(list) {
		list = append(list, append(sets, "train.optimizer=sgd"))
	}
	return list
}

// batchSettings returns the settings that give every replica a number of samples, in
// microbatches of micro samples, or its share if the batch has shards.
func (r *Trial) batchSettings(samples, micro int64) []string {
	w := r.Experiment.Staged
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

// bytesNeededWith returns the bytes of the tensors of all devices under further settings.
func bytesNeededWith(c *configs.Config, sets ...string) (float64, error) {
	next, err := c.With(sets...)
	if err != nil {
		return 0, err
	}
	next.Machine = c.Machine // this machine's, which no setting names
	r := &Trial{Config: next}
	if err := r.build(); err != nil {
		return 0, err
	}
	return r.bytesNeeded()
}

// bytesNeeded returns the bytes of the tensors of all devices of this machine.
func (r *Trial) bytesNeeded() (need float64, err error) {
	simulation, err := psim.Simulate(r.Experiment)
	for rank, summary := range simulation.Summary.Ranks {
		if r.localRanks == nil || slices.Contains(r.localRanks, rank) {
			need += float64(summary.PeakMemory)
		}
	}
	return need, err
}

// checkMemory refuses a run whose tensors alone do not fit into the free memory of this machine
// or its container, which all devices of the Go backend share.
func (r *Trial) checkMemory(o Options, here ram.Room) error {
	need, err := r.bytesNeeded()
	if err != nil {
		return fmt.Errorf("%s: %w", r.Config.Name(), err)
	}
	advice := func() string { return cmp.Or(r.advice(here.Free), "train a smaller network") }
	if need > float64(here.Free) {
		of := "this machine's memory"
		if here.Container > 0 {
			of = "the container's " + units.FormatBytes(here.Container)
		}
		of = cmp.Or(here.Ulimit, of)
		return fmt.Errorf("%s: the tensors of all devices need %s at least, and %s of %s are free; %s", r.Config.Name(),
			units.FormatBytes(int64(min(need, 1e18))), units.FormatBytes(here.Free), of, advice())
	}
	if here.Container > 0 && need > roomyShare*float64(here.Free) && o.Warn != nil {
		o.Warn(fmt.Sprintf("%s: the tensors of all devices need %s, and %s of the container's %s are free; "+
			"programs may need as much again, and the system ends what needs more than there is: %s",
			r.Config.Name(), units.FormatBytes(int64(need)), units.FormatBytes(here.Free),
			units.FormatBytes(here.Container), advice()))
	}
	return nil
}
