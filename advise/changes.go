package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/schedules"
)

// kinds lists the ways to save memory that keep the devices and what each of them trains. The
// first change of every kind changes nothing, and each later one saves more.
func (b baseline) kinds() [][]change {
	kinds := [][]change{b.lighterSchedules()}
	if b.Experiment.Staged != nil {
		kinds = append(kinds, b.moreRecomputation(), b.smallerMicrobatches(), b.higherZero(), b.narrowerPrecision(),
			b.moreOffloading())
	}
	for k := range kinds {
		kinds[k] = slices.Insert(kinds[k], 0, nil)
	}
	return kinds
}

// combinations lists all combinations of changes, as the index of the change of every
// kind: those of the fewest kinds first, beginning with the one that changes nothing.
func combinations(kinds [][]change) [][]int {
	list := [][]int{{}}
	for _, kind := range kinds {
		var next [][]int
		for _, before := range list {
			for i := range kind {
				next = append(next, append(slices.Clone(before), i))
			}
		}
		list = next
	}
	slices.SortStableFunc(list, func(a, b []int) int {
		kindsA, kindsB := changed(a), changed(b)
		return cmp.Or(cmp.Compare(len(kindsA), len(kindsB)), slices.Compare(kindsA, kindsB), slices.Compare(a, b))
	})
	return list
}

// changed returns the kinds that a combination changes.
func changed(chosen []int) (kinds []int) {
	for k, i := range chosen {
		if i > 0 {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// covers reports whether combination a changes everything that b changes, at least as
// much.
func covers(a, b []int) bool {
	for k := range a {
		if a[k] < b[k] {
			return false
		}
	}
	return true
}

// narrowerPrecision lists a precision of half the bits, if the device computes faster in it.
func (b baseline) narrowerPrecision() []change {
	if p := b.Config.Train.Precision; p != "" && p != "fp32" {
		return nil
	}
	device := b.Experiment.Machine.Device
	for _, half := range []string{"bf16", "fp16"} {
		if device.PeakIn(half) > device.PeakIn("fp32") {
			return []change{{"train.precision=" + half}}
		}
	}
	return nil
}

// lighterSchedules lists schedules that hold fewer activations.
func (b baseline) lighterSchedules() []change {
	s, err := schedules.Find(b.Experiment.Graph.Name)
	if err != nil || s.Lighter == "" { // err: an order from a search or a file
		return nil
	}
	return []change{{"schedule.name=" + s.Lighter}}
}

// moreRecomputation lists recomputations that keep fewer activations.
func (b baseline) moreRecomputation() []change {
	full := change{"train.recompute=full"}
	switch b.Config.Train.Recompute {
	case "none":
		return append(b.cheapModules("train.recompute=selective"), full)
	case "selective":
		return append(b.cheapModules(), full)
	case "full":
		return nil
	}
	return []change{full}
}

// cheapModules lists settings, followed by the recomputation of all modules of experts and
// of latent attention that save memory for little work, if the network has several.
func (b baseline) cheapModules(settings ...string) (list []change) {
	var cheap []string
	for _, name := range b.Experiment.Network.Modules() {
		if slices.Contains([]string{"moe_act", "norm", "mla_up_proj"}, name) {
			cheap = append(cheap, name)
		}
	}
	if len(cheap) > 1 {
		settings = append(settings, "train.recompute="+strings.Join(cheap, ","))
	}
	for _, set := range settings {
		list = append(list, change{set})
	}
	return list
}

// offloads reports whether a setting copies tensors to the host.
func offloads(set string) bool { return strings.HasPrefix(set, "train.offload_activations=") }

// moreOffloading lists numbers of blocks whose tensors wait in the memory of the host: half of them, and all that can.
func (b baseline) moreOffloading() (list []change) {
	own := b.Config.Train.OffloadActivations
	if b.pipelined() || own == 0 && b.Experiment.Machine.HostLink.Bandwidth == 0 {
		return nil
	}
	blocks := 0
	for _, l := range b.Experiment.Network.Layers {
		if l.IsBlock() {
			blocks++
		}
	}
	for _, n := range slices.Compact([]int{blocks / 2, blocks - 1}) {
		if n > own {
			list = append(list, change{fmt.Sprintf("train.offload_activations=%d", n)})
		}
	}
	return list
}

// pipelined reports whether the network is split into stages.
func (b baseline) pipelined() bool {
	s, err := schedules.Find(b.Experiment.Graph.Name)
	return err != nil || s.Pipelined // err: an order from a search or a file
}

// higherZero lists higher ZeRO stages than the configuration's. Only networks that are not
// pipelined can have the third.
func (b baseline) higherZero() (list []change) {
	highest := 3
	if b.pipelined() {
		highest = 2
	}
	if max(b.Experiment.Graph.Shape.Replicas, b.Config.Parallel.Context) <= 1 {
		return nil
	}
	for z := b.Config.Parallel.Zero + 1; z <= highest; z++ {
		list = append(list, change{fmt.Sprintf("parallel.zero=%d", z)})
	}
	return list
}

// smallerMicrobatches lists smaller microbatches, by halves, or in smaller steps if the
// configuration gives no global batch: they then have to divide the batch.
func (b baseline) smallerMicrobatches() (list []change) {
	micro, count := b.Experiment.Staged.Samples[0], int64(b.Experiment.Graph.Shape.Microbatches)
	total := b.Experiment.Staged.Batch(0)
	global, own := b.Config.Defined("batch.global"), b.Config.Defined("batch.micro")
	for micro > 1 && count < budget {
		micro, count = (micro+1)/2, count*2
		for !global && total%micro != 0 {
			micro--
		}
		if own {
			count = (total + micro - 1) / micro
		}
		var sets change
		if own {
			sets = append(sets, fmt.Sprintf("batch.micro=%d", micro))
		}
		if b.Config.Defined("schedule.microbatches") || !global || len(sets) == 0 {
			sets = append(sets, fmt.Sprintf("schedule.microbatches=%d", count))
		}
		list = append(list, sets)
	}
	return list
}
