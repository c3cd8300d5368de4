// Package stages derives what follows from cutting a network into stages: the layers that run
// together, the gradients that are summed together, the parts that replicas shard, and the
// parameters that several ranks hold. It does so once ([Workload.Staged]). Wiring, prices,
// memory and execution all read the result, so that they cannot disagree.
//
//	layers     embed  h.0  h.1  h.2 │ h.3  h.4  h.5  ln_f  head
//	stages     ───────── 0 ──────── │ ──────────── 1 ──────────    each is on a rank
//	segments   [embed  h.0][h.1  h.2] [h.3  h.4][h.5  ln_f  head]  run and compiled together
//	buckets    [    1     ][    0   ] [    1   ][       0       ]  gradients summed together
//
// A backward goes from right to left. With Overlap it is cut wherever a bucket is complete, so
// that bucket 0 is summed while layers further left still compute. Those cuts make the
// segments; without them a stage is one segment. Where experts are on other devices, passes are
// cut at their all-to-alls instead.
//
// Under ZeRO 3 every layer is a stage, all on one rank. The parameters of a stage are a unit,
// which is gathered before a pass uses it and freed afterwards:
//
//	gather 0 → F of 0 → free 0,  gather 1 → F of 1 → free 1,  …   (Rajbhandari et al. 2020)
//
// Sizes are in bytes, of one device, unless a name says parameters or samples.
package stages

import (
	"fmt"
	"slices"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// A Workload is a network that is cut into stages and trained in microbatches.
type Workload struct {
	Network  network.Network
	Training training.Options
	// Layers[s] is the number of layers of stage s.
	Layers []int
	// PipelineLayers is, under ZeRO 3 in a pipeline, the number of layers of each of its stages: Layers and Placement
	// then have the units; nil without a pipeline.
	PipelineLayers []int
	// Placement says where the stages of every replica are.
	Placement graph.Placement
	// Samples[m] is the size of microbatch m; if replicas differ, of the replica with the
	// most samples.
	Samples  []int64
	Replicas int // 0 means 1
	// Context is the number of devices of a rank that have parts of the same samples. Like
	// replicas, they hold the same parameters. 0 means 1.
	Context int
	// Shards[r] is the size of every microbatch of replica r if replicas differ, else nil.
	// Gradients are then weighted by samples.
	Shards []int64
	// Zero is the ZeRO stage: 1 shards the optimizer's state over the replicas (and Context),
	// 2 also the gradients, 3 everything, stage by stage (see wiring.Unit).
	Zero int
	// PerTensor: ZeRO 3 gathers and scatters every tensor of a stage in a collective of its
	// own.
	PerTensor bool
	// Copied: ZeRO 3 copies the gathered parameters of a stage into separate tensors.
	Copied bool
	// ZeroGroup is the number of neighbouring replicas among which ZeRO 1 divides states, and ZeRO 3 everything, if
	// every such group holds all of it; 0 means all replicas.
	ZeroGroup int
	// Simplified: ZeRO 3 keeps the whole model and the last whole gradients on every rank, in
	// addition to its share of both.
	Simplified bool
	// SumOnce: ZeRO 3 adds the gradients of all microbatches up whole, and scatters them after the last.
	SumOnce bool
	// Bucket is the size in bytes that closes a bucket of gradients; 0 sends every tensor by
	// itself. It has no effect under ZeRO 3.
	Bucket int64
	// BucketGradients, if not 0, is the number of gradients that closes a bucket; Bucket then
	// has no effect.
	BucketGradients int64
	// Overlap: gradients leave before the backward ends, bucket by bucket.
	Overlap bool
	// Broadcast: before the step the first replica sends its parameters to the others, in
	// pieces of the same tensors as Buckets. Not with ZeRO 3.
	Broadcast bool
	// OverlapGather: ZeRO 1 and 2 gather updated parameters during the first forwards of the
	// next step, in pieces of whole layers whose gradients fill a bucket. Not with WholeLast.
	OverlapGather bool
	// UpdatedAtOnce: ZeRO 1 and 2 gather the updated parameters of a stage in one collective, not in
	// pieces of the same tensors as Buckets. UpdatedByOwner: each replica broadcasts the part that it
	// has updated.
	UpdatedAtOnce, UpdatedByOwner bool
	// NoReduceScatter is set for programs that all-reduce instead, and for libraries without that
	// collective, such as Gloo. Staging is set where such a library works in host memory, and
	// tensors are on devices.
	NoReduceScatter, Staging bool
	// Loop: zeroing and the loss are tasks of their own (see wiring.Loop). The loss is then a
	// layer, the last one, and a segment.
	Loop bool
	// WholeLast: the last stage takes all microbatches at once (see wiring.Pipeline). Each
	// microbatch is charged its share of the time.
	WholeLast bool
	// State, if not zero, overrides the bytes per parameter that follow from Training, for
	// precisions that Training cannot express.
	State training.State
	// Process is the memory of a device's process in addition to tensors.
	Process ProcessMemory
}

// A ProcessMemory describes the memory that the process of a device holds in addition to the
// tensors of its tasks. The zero value holds nothing.
type ProcessMemory struct {
	// Context is the bytes of driver and libraries, Buffers those of communication.
	Context, Buffers int64
	// Allocator is the memory that the allocator reserves beyond the tensors that come and
	// go, as a share of them.
	Allocator float64
	// GradientCopies: gradients are held both in 16 bits and in fp32.
	GradientCopies bool
	// KeepOutputs: the result that a stage has sent stays until its backward, which starts
	// from it.
	KeepOutputs bool
	// PartOutputs: each device of a tensor-parallel group keeps only a part of that result,
	// and the group gathers it for the backward.
	PartOutputs bool
	// FP32Shards: ZeRO 3 shards only fp32 weights and gradients.
	FP32Shards bool
	// FreedGradients: the update frees the gradients, which exist again from the next backward on.
	FreedGradients bool
}

// Reserve returns the bytes that the allocator holds in addition to tensors that come and go.
func (p ProcessMemory) Reserve(bytes int64) int64 { return int64(p.Allocator * float64(bytes)) }

// BytesPerSample is at least the bytes of a sample that any pass of a network moves or keeps.
func BytesPerSample(n network.Network) (perSample float64) {
	byLayer, same := make([]float64, len(n.Layers)), network.Same(n.Layers)
	for i, l := range n.Layers {
		if k := same[i]; k < i {
			byLayer[i] = byLayer[k]
			perSample += byLayer[i]
			continue
		}
		before := perSample
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			perSample += 8 * float64(l.Traffic(p, 1))
		}
		perSample += 8 * float64(l.Input.Elements()+l.Output.Elements())
		for _, b := range l.Buffers {
			perSample += float64(b.Bytes(8))
		}
		byLayer[i] = perSample - before
	}
	return perSample
}

// Validate reports a step whose bytes would overflow an int64, given the BytesPerSample of its network.
func (w Workload) Validate(perSample float64) error {
	var samples float64
	for _, n := range w.Samples {
		samples += float64(n)
	}
	if samples *= float64(w.replicas()); samples*perSample > 1<<62 {
		return fmt.Errorf("%.0f samples per step of %s are more than can be counted in bytes: use fewer",
			samples, w.Network.Name)
	}
	return nil
}

func (w Workload) replicas() int { return max(1, w.Replicas) }

// holders counts the devices that hold the same parameters.
func (w Workload) holders() int { return w.replicas() * max(1, w.Context) }

// SamplesOf returns the size of a microbatch of a replica.
func (w Workload) SamplesOf(replica, microbatch int) int64 {
	if w.Shards != nil {
		return w.Shards[replica]
	}
	return w.Samples[microbatch]
}

// sharers counts the devices among which a sharded state is divided.
func (w Workload) sharers() int {
	if w.ZeroGroup > 0 {
		return w.ZeroGroup * max(1, w.Context)
	}
	return w.holders()
}

// Batch returns the samples of one step of a replica.
func (w Workload) Batch(replica int) int64 {
	var n int64
	for m := range w.Samples {
		n += w.SamplesOf(replica, m)
	}
	return n
}

// PerReplica lists the samples of one step of every replica.
func (w Workload) PerReplica() []int64 {
	list := make([]int64, w.replicas())
	for r := range list {
		list[r] = w.Batch(r)
	}
	return list
}

// Total is the samples of one step over all replicas.
func (w Workload) Total() int64 {
	if w.Shards == nil {
		return w.Batch(0) * int64(w.replicas())
	}
	var n int64
	for r := range w.Shards {
		n += w.Batch(r)
	}
	return n
}

// split returns the network with its cuts and ranks.
func (w Workload) split() Split {
	return Split{Network: w.Network, Layers: w.Layers, Ranks: w.Placement.LowestRanks()}
}

// CutIntoLayers makes every layer of a pipeline a stage of its own, on the rank of the stage that it was part of.
func (w *Workload) CutIntoLayers() {
	w.PipelineLayers = w.Layers
	var ranks []int32
	for s, n := range w.Layers {
		ranks = append(ranks, slices.Repeat([]int32{w.Placement.First[s]}, n)...)
	}
	w.Layers, w.Placement.First = slices.Repeat([]int{1}, len(ranks)), ranks
}

// Pipeline lists the ranks of the stages of the pipeline, whether or not these are cut into layers.
func (w *Workload) Pipeline() []int32 {
	if w.PipelineLayers == nil {
		return w.Placement.First
	}
	ranks, first := make([]int32, len(w.PipelineLayers)), 0
	for s, n := range w.PipelineLayers {
		ranks[s] = w.Placement.First[first]
		first += n
	}
	return ranks
}

// pipelineLayers lists the numbers of layers by stage of the pipeline, which under ZeRO 3 may have one
// stage.
func (w Workload) pipelineLayers() []int {
	switch {
	case w.PipelineLayers != nil:
		return w.PipelineLayers
	case w.Zero >= 3 && !slices.ContainsFunc(w.Placement.First, func(r int32) bool { return r > 0 }):
		return []int{len(w.Network.Layers)}
	}
	return w.Layers
}
