// Package stages plans how a network is trained in stages: which layers every
// stage runs together, which gradients travel together, what the replicas shard
// and which parameters several ranks hold. The plan is made once. Wiring, prices,
// memory and execution all read it, so that they cannot disagree.
package stages

import (
	"fmt"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// A Workload is a network cut into stages and trained in microbatches.
type Workload struct {
	Network  network.Network
	Training training.Options
	// Layers[s] is the number of layers of stage s.
	Layers []int
	// Placement is where the stages are in every replica.
	Placement graph.Placement
	// Samples[m] is the size of microbatch m; where replicas differ, of the one with the
	// most samples.
	Samples  []int64
	Replicas int // 0 means 1
	// Context is how many devices of a rank have parts of the same samples: they hold the
	// same parameters, as those of other replicas do. 0 means 1.
	Context int
	// Shards is the size of all microbatches of a replica, where replicas differ, else
	// nil. Their gradients count by their samples.
	Shards []int64
	// Zero is the ZeRO stage: 1 shards the optimizer's state over the
	// replicas (and Context), 2 the gradients as well, 3 everything, stage by stage (see
	// wiring.Unit).
	Zero int
	// PerTensor has ZeRO 3 gather and scatter every tensor by itself, not all of a
	// stage together.
	PerTensor bool
	// Copied has ZeRO 3 copy what it gathers of a stage into tensors of their own.
	Copied bool
	// Simplified has ZeRO 3 shard parameters alone: a rank keeps the whole model,
	// and its last whole gradients, beside its share of both.
	Simplified bool
	// Bucket is the size in bytes that closes a bucket of gradients (see
	// Buckets); 0 sends every tensor by itself. With ZeRO 3 a stage's gradients
	// travel whole.
	Bucket int64
	// BucketGradients closes a bucket at so many gradients, in place of Bucket; 0 does not.
	BucketGradients int64
	// Overlap has gradients leave before the backward ends, bucket by bucket.
	Overlap bool
	// Broadcast has the first replica send its parameters to the others before the step,
	// in pieces of as many tensors as Buckets. It does not go with ZeRO 3.
	Broadcast bool
	// OverlapGather has ZeRO 1 and 2 gather the parameters that a step has updated beside
	// the first forwards of the next, in pieces of whole layers with gradients of Bucket
	// bytes. It does not go with WholeLast.
	OverlapGather bool
	// NoReduceScatter is for libraries without that collective, such as Gloo.
	NoReduceScatter bool
	// WholeLast has the last stage take all microbatches at once (see
	// wiring.Pipeline); each has its share of what that takes.
	WholeLast bool
	// State overrides the bytes per parameter that Training implies, for
	// precisions it cannot express. The zero value does not.
	State training.State
	// Process is what every device's process holds beside its tensors.
	Process ProcessMemory
}

// A ProcessMemory is what the process of a device holds beside the tensors of its tasks, and how.
// The zero value holds nothing.
type ProcessMemory struct {
	// Context is the bytes that driver and libraries take, Buffers those of communication.
	Context, Buffers int64
	// Allocator is what it holds beyond the tensors that come and go, as a share of them.
	Allocator float64
	// GradientCopies has gradients held in 16 bits and in fp32.
	GradientCopies bool
	// KeepOutputs has what a stage has sent stay until its backward, which asks for it.
	KeepOutputs bool
	// PartOutputs has each device of a tensor group keep a part of that alone, and gather
	// it for the backward.
	PartOutputs bool
	// FP32Shards has ZeRO 3 shard fp32 weights and gradients, and no others.
	FP32Shards bool
}

// Reserve is what the allocator holds beyond so many bytes that come and go.
func (p ProcessMemory) Reserve(bytes int64) int64 { return int64(p.Allocator * float64(bytes)) }

// Validate reports a step so large that its bytes cannot be counted.
func (w Workload) Validate() error {
	var perSample float64 // no less than the bytes that any pass moves or keeps
	of, same := make([]float64, len(w.Network.Layers)), network.Same(w.Network.Layers)
	for i, l := range w.Network.Layers {
		if k := same[i]; k < i {
			of[i] = of[k]
			perSample += of[i]
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
		of[i] = perSample - before
	}
	var samples float64
	for _, n := range w.Samples {
		samples += float64(n)
	}
	if samples *= float64(w.replicas()); samples*perSample > 1<<62 {
		return fmt.Errorf("%.0f samples per step of %s are more than can be counted in bytes: use fewer", samples, w.Network.Name)
	}
	return nil
}

func (w Workload) replicas() int { return max(1, w.Replicas) }

// holders counts the devices that hold the same parameters.
func (w Workload) holders() int { return w.replicas() * max(1, w.Context) }

// SamplesOf is the size of a microbatch of a replica.
func (w Workload) SamplesOf(replica, microbatch int) int64 {
	if w.Shards != nil {
		return w.Shards[replica]
	}
	return w.Samples[microbatch]
}

// Batch is the samples of a replica's step.
func (w Workload) Batch(replica int) int64 {
	var n int64
	for m := range w.Samples {
		n += w.SamplesOf(replica, m)
	}
	return n
}

// PerReplica lists the samples of a step of every replica.
func (w Workload) PerReplica() []int64 {
	list := make([]int64, w.replicas())
	for r := range list {
		list[r] = w.Batch(r)
	}
	return list
}

// Total is the samples of a step over all replicas.
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

// split returns the network as it is cut and placed.
func (w Workload) split() Split {
	return Split{Network: w.Network, Layers: w.Layers, Ranks: w.Placement.LowestRanks()}
}

// pipelineLayers counts the layers of the stages of the pipeline, which with ZeRO 3 has one.
func (w Workload) pipelineLayers() []int {
	if w.Zero >= 3 {
		return []int{len(w.Network.Layers)}
	}
	return w.Layers
}
