package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/schedules"
)

// kinds lists the ways to save memory, those that need other devices last. The
// first change of every kind is none, and a later one saves more.
func (p advised) kinds() [][]change {
	kinds := [][]change{p.schedules()}
	if p.Experiment.Staged != nil {
		kinds = append(kinds, p.recomputations(), p.smaller(), p.zeros(), p.workers(), p.tensor(), p.stages())
	}
	for k := range kinds {
		kinds[k] = slices.Insert(kinds[k], 0, nil)
	}
	return kinds
}

// combinations lists what can be changed together, as the number of the change of
// every kind: fewest kinds first, the most thorough last. What needs other devices
// comes after what does not.
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
		x, kindsA := changed(a)
		y, kindsB := changed(b)
		return cmp.Or(cmp.Compare(x, y), slices.Compare(kindsA, kindsB), slices.Compare(a, b))
	})
	return list[1:] // without the combination that changes nothing
}

// changed returns the kinds that a combination changes, and how much that asks.
func changed(chosen []int) (weight int, kinds []int) {
	const own = 4 // kinds that need no other devices
	for k, i := range chosen {
		if i == 0 {
			continue
		}
		kinds = append(kinds, k)
		if weight++; k >= own {
			weight += own
		}
	}
	return weight, kinds
}

// covers reports whether a combination changes all that another does, or more.
func covers(a, b []int) bool {
	for k := range a {
		if a[k] < b[k] {
			return false
		}
	}
	return true
}

// schedules lists schedules that hold fewer activations.
func (p advised) schedules() []change {
	s, err := schedules.Find(p.Experiment.Graph.Name)
	if err != nil || s.Lighter == "" { // a found order, or one from a file
		return nil
	}
	return []change{{"schedule.name=" + s.Lighter}}
}

// recomputations lists what keeps less than the configuration does.
func (p advised) recomputations() []change {
	full := change{"train.recompute=full"}
	switch p.Config.Train.Recompute {
	case "none":
		return append(p.modules("train.recompute=selective"), full)
	case "selective":
		return append(p.modules(), full)
	case "full":
		return nil
	}
	return []change{full}
}

// modules lists settings, and after them the modules of experts and of latent attention that
// keep less for little work, where the network has such blocks.
func (p advised) modules(settings ...string) (list []change) {
	var cheap []string
	for _, name := range p.Experiment.Network.Modules() {
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

// pipelined reports whether the network is split into stages.
func (p advised) pipelined() bool {
	s, err := schedules.Find(p.Experiment.Graph.Name)
	return err != nil || s.Pipelined // or a found order, or one from a file
}

// zeros lists higher ZeRO stages than the configuration's. Only whole networks have
// the third.
func (p advised) zeros() (list []change) {
	highest := 3
	if p.pipelined() {
		highest = 2
	}
	for z := p.Experiment.Staged.Zero + 1; z <= highest && max(p.Experiment.Graph.Shape.Replicas, p.Config.Parallel.Context) > 1; z++ {
		list = append(list, change{fmt.Sprintf("parallel.zero=%d", z)})
	}
	return list
}

// workers lists fewer replicas, of many by halves, where those of a node share its
// memory. Each keeps its batch, as with psim exec --gpus.
func (p advised) workers() (list []change) {
	if len(p.Result.Nodes) == 0 || p.Config.Batch.Shards != nil {
		return nil
	}
	replicas := p.Experiment.Graph.Shape.Replicas
	const few = 8
	for n := replicas; n > 1; {
		if n > few {
			n /= 2
		} else {
			n--
		}
		sets := change{fmt.Sprintf("parallel.data=%d", n)}
		if p.Config.Defined("batch.global") {
			sets = append(sets, fmt.Sprintf("batch.global=%d", p.Experiment.Staged.Batch(0)*int64(n)))
		}
		list = append(list, sets)
	}
	return list
}

// smaller lists smaller microbatches, by halves, or where the batch is given by its
// microbatches, by less: then they have to divide it.
func (p advised) smaller() (list []change) {
	micro, count := p.Experiment.Staged.Samples[0], int64(p.Experiment.Graph.Shape.Microbatches)
	total := p.Experiment.Staged.Batch(0)
	global, own := p.Config.Defined("batch.global"), p.Config.Defined("batch.micro")
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
		if p.Config.Defined("schedule.microbatches") || !global || len(sets) == 0 {
			sets = append(sets, fmt.Sprintf("schedule.microbatches=%d", count))
		}
		list = append(list, sets)
	}
	return list
}

// tensor lists larger tensor-parallel groups, up to the eight devices that a node
// commonly has.
func (p advised) tensor() (list []change) {
	const most = 8
	for t := 2 * max(1, p.Config.Parallel.Tensor); t <= most; t *= 2 {
		sets := change{fmt.Sprintf("parallel.tensor=%d", t)}
		if !p.Config.Parallel.Sequence && !p.Config.Offers().Has("parallel.sequence", "false") {
			sets = append(sets, "parallel.sequence=true")
		}
		list = append(list, sets)
	}
	return list
}

// stages lists deeper pipelines, by doubling, where it is not said which layers and
// ranks every stage has. A whole network is split by 1F1B, the usual choice.
func (p advised) stages() (list []change) {
	shape := p.Experiment.Graph.Shape
	if s := p.Config.Schedule; s.Partition.Layers != nil || s.Placement != nil || s.File != "" {
		return nil
	}
	// Under ZeRO 3 a layer is a stage, all on one rank.
	ranks, virtual, schedule := shape.Ranks, shape.Virtual, change(nil)
	if !p.pipelined() {
		ranks, virtual, schedule = 1, 1, change{"schedule.name=1f1b"}
	}
	layers := len(p.Experiment.Staged.Network.Layers)
	for n := 2 * ranks; n*virtual <= layers; n *= 2 {
		list = append(list, append(slices.Clone(schedule), fmt.Sprintf("schedule.stages=%d", n)))
	}
	return list
}
