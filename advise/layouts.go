package advise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A layout is another division of the network among devices, by the factors of each dimension.
type layout struct {
	sets                              change
	tensor, context, stages, replicas float64
}

// own is the layout of the configuration.
var own = layout{tensor: 1, context: 1, stages: 1, replicas: 1}

// devices returns the factor of the number of devices.
func (l layout) devices() float64 { return l.tensor * l.context * l.stages * l.replicas }

// contains reports whether a layout changes every dimension by at least as much as another.
func (l layout) contains(other layout) bool {
	replicas := other.replicas == 1 || other.replicas > 1 && l.replicas >= other.replicas ||
		other.replicas < 1 && l.replicas <= other.replicas
	return l.tensor >= other.tensor && l.context >= other.context && l.stages >= other.stages && replicas
}

// with joins two layouts.
func (l layout) with(other layout) layout {
	return layout{
		append(slices.Clone(l.sets), other.sets...), l.tensor * other.tensor, l.context * other.context,
		l.stages * other.stages, l.replicas * other.replicas,
	}
}

// supportedLayouts lists the other layouts that the stack supports in groups: first those with
// fewer replicas, then those with as many devices, then those with more, by their number.
func (b baseline) supportedLayouts() (groups [][]layout) {
	if b.Experiment.Staged == nil {
		return nil
	}
	tensor, context, stages := b.largerTensorGroups(), b.longerContexts(), b.deeperPipelines()
	list := slices.Concat(b.regrouped(slices.Concat(tensor, context, stages)), tensor, stages, b.shardedReplicas())
	for _, t := range tensor {
		for _, p := range stages {
			list = append(list, t.with(p))
		}
	}
	slices.SortStableFunc(list, func(a, b layout) int { return cmp.Compare(a.devices(), b.devices()) })
	list = append(b.fewerReplicas(), list...)
	b.nameReplicas(list)
	list = slices.DeleteFunc(list, func(l layout) bool { return !b.supports(l.sets) })
	for i, l := range list {
		if i == 0 || l.devices() != list[i-1].devices() {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], l)
	}
	return groups
}

// nameReplicas completes layouts that keep the replicas, if their number follows from that of the
// devices.
func (b baseline) nameReplicas(list []layout) {
	if b.Config.DevicesAsked() == 0 {
		return
	}
	for i, l := range list {
		if !slices.ContainsFunc(l.sets, func(set string) bool { return strings.HasPrefix(set, "parallel.data=") }) {
			keep := fmt.Sprintf("parallel.data=%d", max(1, b.Config.Parallel.Data))
			list[i].sets = append(slices.Clone(l.sets), keep)
		}
	}
}

// fewerReplicas lists smaller numbers of replicas, by halves while there are many, if the
// replicas of a node share its memory. Each keeps its batch, as with psim exec --gpus.
func (b baseline) fewerReplicas() (list []layout) {
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
		list = append(list, layout{sets, 1, 1, 1, float64(n) / float64(replicas)})
	}
	return list
}

// regrouped lists layouts on the same devices: what they divide further, fewer replicas share.
func (b baseline) regrouped(layouts []layout) (list []layout) {
	replicas := max(1, b.Experiment.Graph.Shape.Replicas)
	for _, l := range layouts {
		n := replicas / int(l.devices())
		if n*int(l.devices()) != replicas {
			continue
		}
		if sets, ok := b.keepingBatch(n); ok {
			list = append(list, l.with(layout{sets, 1, 1, 1, 1 / l.devices()}))
		}
	}
	return list
}

// mostShards bounds the factor of replicas that share what ZeRO 3 divides.
const mostShards = 64

// shardedReplicas lists larger numbers of replicas that share parameters, gradients and the
// optimizer, for networks that are not pipelined.
func (b baseline) shardedReplicas() (list []layout) {
	if b.pipelined() {
		return nil
	}
	for times := 2; times <= mostShards; times *= 2 {
		sets, ok := b.keepingBatch(times * max(1, b.Experiment.Graph.Shape.Replicas))
		if !ok {
			break
		}
		if b.Experiment.Staged.Zero < 3 {
			sets = append(sets, "parallel.zero=3")
		}
		list = append(list, layout{sets, 1, 1, 1, float64(times)})
	}
	return list
}

// batchIsAssumed reports whether nobody asked for the number of samples of a step.
func (b baseline) batchIsAssumed() bool {
	return !b.Config.HasPlan() && !b.Config.Defined("batch.global")
}

// keepingBatch returns the settings for a number of replicas that share the samples of a step, and
// reports whether they can. An assumed batch grows with the replicas instead.
func (b baseline) keepingBatch(replicas int) (sets change, ok bool) {
	sets = change{fmt.Sprintf("parallel.data=%d", replicas)}
	if b.batchIsAssumed() {
		return sets, true
	}
	shape, total := b.Experiment.Graph.Shape, samplesOf(b.Prediction)
	if b.Config.Batch.Shards != nil || total%int64(replicas) != 0 {
		return nil, false
	}
	global, each := b.Config.Defined("batch.global"), total/int64(replicas)
	if !global || b.Config.Defined("schedule.microbatches") {
		count := shape.Microbatches * max(1, shape.Replicas)
		if count%replicas != 0 {
			return nil, false
		}
		return append(sets, fmt.Sprintf("schedule.microbatches=%d", count/replicas)), true
	}
	if micro := b.Config.Batch.Micro; micro > each {
		sets = append(sets, fmt.Sprintf("batch.micro=%d", each))
	}
	return sets, true
}

// mostInNode bounds the devices that divide layers: the usual eight of a node.
const mostInNode = 8

// longerContexts lists larger numbers of parts into which every sequence is cut.
func (b baseline) longerContexts() (list []layout) {
	now := max(1, b.Config.Parallel.Context)
	for c := 2 * now; c*max(1, b.Config.Parallel.Tensor) <= mostInNode; c *= 2 {
		list = append(list, layout{change{fmt.Sprintf("parallel.context=%d", c)}, 1, float64(c / now), 1, 1})
	}
	return list
}

// largerTensorGroups lists larger tensor-parallel groups, which also divide the sequence if that is
// possible.
func (b baseline) largerTensorGroups() (list []layout) {
	now := max(1, b.Config.Parallel.Tensor)
	for t := 2 * now; t <= mostInNode; t *= 2 {
		sets := change{fmt.Sprintf("parallel.tensor=%d", t)}
		if !b.Config.Parallel.Sequence {
			along := append(slices.Clone(sets), "parallel.sequence=true")
			if _, err := b.Config.With(along...); err == nil && b.supports(along) {
				sets = along
			}
		}
		list = append(list, layout{sets, float64(t / now), 1, 1, 1})
	}
	return list
}

// deeperPipelines lists pipelines with more stages, by doubling, unless the configuration
// fixes the layers or ranks of every stage. A whole network is split by 1F1B, the usual
// choice.
func (b baseline) deeperPipelines() (list []layout) {
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
		sets := append(slices.Clone(schedule), fmt.Sprintf("schedule.stages=%d", n))
		list = append(list, layout{sets, 1, 1, float64(n / ranks), 1})
	}
	return list
}
