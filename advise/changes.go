package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"psim/schedules"
)

// kinds lists the ways to save memory; those that need other devices come last. The
// first change of every kind changes nothing, and each later one saves more.
func (b baseline) kinds() [][]change {
	kinds := [][]change{b.lighterSchedules()}
	if b.Experiment.Staged != nil {
		kinds = append(kinds, b.moreRecomputation(), b.smallerMicrobatches(), b.higherZero(),
			b.fewerReplicas(), b.largerTensorGroups(), b.deeperPipelines())
	}
	for k := range kinds {
		kinds[k] = slices.Insert(kinds[k], 0, nil)
	}
	return kinds
}

// combinations lists all combinations of changes, as the index of the change of every
// kind: those of the fewest kinds first. Combinations that need other devices come after
// those that do not.
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
		x, kindsA := weigh(a)
		y, kindsB := weigh(b)
		return cmp.Or(cmp.Compare(x, y), slices.Compare(kindsA, kindsB), slices.Compare(a, b))
	})
	return list[1:] // without the combination that changes nothing
}

// weigh returns the kinds that a combination changes, and a weight to order by.
func weigh(chosen []int) (weight int, kinds []int) {
	const own = 4 // the number of kinds that need no other devices
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
	for z := b.Experiment.Staged.Zero + 1; z <= highest; z++ {
		list = append(list, change{fmt.Sprintf("parallel.zero=%d", z)})
	}
	return list
}

// fewerReplicas lists smaller numbers of replicas, by halves while there are many, if the
// replicas of a node share its memory. Each keeps its batch, as with psim exec --gpus.
func (b baseline) fewerReplicas() (list []change) {
	if len(b.Result.Nodes) == 0 || b.Config.Batch.Shards != nil {
		return nil
	}
	replicas := b.Experiment.Graph.Shape.Replicas
	const few = 8
	for n := replicas; n > 1; {
		if n > few {
			n /= 2
		} else {
			n--
		}
		sets := change{fmt.Sprintf("parallel.data=%d", n)}
		if b.Config.Defined("batch.global") {
			sets = append(sets, fmt.Sprintf("batch.global=%d", b.Experiment.Staged.Batch(0)*int64(n)))
		}
		list = append(list, sets)
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

// largerTensorGroups lists larger tensor-parallel groups, up to the usual eight devices of
// a node.
func (b baseline) largerTensorGroups() (list []change) {
	const most = 8
	for t := 2 * max(1, b.Config.Parallel.Tensor); t <= most; t *= 2 {
		sets := change{fmt.Sprintf("parallel.tensor=%d", t)}
		if !b.Config.Parallel.Sequence && !b.Config.Offers().Has("parallel.sequence", "false") {
			sets = append(sets, "parallel.sequence=true")
		}
		list = append(list, sets)
	}
	return list
}

// deeperPipelines lists pipelines with more stages, by doubling, unless the configuration
// fixes the layers or ranks of every stage. A whole network is split by 1F1B, the usual
// choice.
func (b baseline) deeperPipelines() (list []change) {
	shape := b.Experiment.Graph.Shape
	if s := b.Config.Schedule; s.Partition.Layers != nil || s.Placement != nil || s.File != "" {
		return nil
	}
	// Under ZeRO 3 a layer is a stage, all on one rank.
	ranks, virtual, schedule := shape.Ranks, shape.Virtual, change(nil)
	if !b.pipelined() {
		ranks, virtual, schedule = 1, 1, change{"schedule.name=1f1b"}
	}
	layers := len(b.Experiment.Staged.Network.Layers)
	for n := 2 * ranks; n*virtual <= layers; n *= 2 {
		list = append(list, append(slices.Clone(schedule), fmt.Sprintf("schedule.stages=%d", n)))
	}
	return list
}
