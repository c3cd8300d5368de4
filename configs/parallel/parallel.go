// Package parallel holds the sections [batch], [data] and [parallel] of a configuration, which
// say how a batch and a network are divided over devices.
package parallel

import (
	"errors"
	"fmt"

	"psim/internal/setting"
)

// Options is the [parallel] section.
type Options struct {
	Data          int      `toml:"data"`           // replicas
	Tensor        int      `toml:"tensor"`         // devices of a tensor-parallel group
	Context       int      `toml:"context"`        // parts of a sequence; a rank is tensor × context devices
	ContextMethod string   `toml:"context_method"` // "" is ContextRing
	Sequence      bool     `toml:"sequence"`
	Expert        int      `toml:"expert"`        // devices that share the experts of a layer
	ExpertTensor  int      `toml:"expert_tensor"` // that divide each of these; 0 is Tensor without Expert, else 1
	Dispatcher    string   `toml:"dispatcher"`
	Dispatch      string   `toml:"dispatch"` // precision of what is dispatched
	ExpertOverlap bool     `toml:"expert_overlap"`
	DelayWeights  bool     `toml:"delay_weights"`
	TensorOverlap bool     `toml:"tensor_overlap"`
	TensorGather  string   `toml:"tensor_gather"` // "" is GatherInput
	ScatterGather bool     `toml:"scatter_gather"`
	Zero          int      `toml:"zero"`
	ZeroGroup     int      `toml:"zero_group"`     // of zero = 1 and 3; 0 is all replicas
	Gather        string   `toml:"gather"`         // of zero = 3; "" is GatherUnit
	Unit          string   `toml:"gather_unit"`    // of zero = 3; "" is UnitBlock
	Simplified    bool     `toml:"simplified"`     // of zero = 3
	SumOnce       bool     `toml:"sum_once"`       // of zero = 2 and 3
	OverlapGather bool     `toml:"overlap_gather"` // of zero = 1 and 2
	GatherUpdated string   `toml:"gather_updated"` // of zero = 1 and 2; "" is UpdatedByBucket
	ReduceScatter bool     `toml:"reduce_scatter"`
	Broadcast     bool     `toml:"broadcast"`
	Bucket        BucketBy `toml:"bucket"`
	Overlap       bool     `toml:"overlap"`
	Collectives   string   `toml:"collectives"` // "" is nccl
	Order         string   `toml:"order"`       // "" is StagesFirst
}

// Settings describes [parallel]. The default bucket is PyTorch's.
func (Options) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "data", Default: 1, Range: setting.Count(),
			Text: "replicas; stages × data × tensor × context devices in all",
		},
		{
			Key: "tensor", Offered: "tensor", Executed: []string{"1"}, Default: 1, Range: setting.Between(1, maxTensor),
			Text: "devices of a tensor-parallel group, as in Megatron: a rank stands for one group, whose devices do " +
				"the same",
		},
		{
			Key: "context", Offered: "context", Executed: []string{"1"}, Default: 1,
			Range: setting.Between(1, maxTensor), With: withModel(),
			Text: "parts into which every sequence is cut, one for each tensor-parallel group of a rank: a rank " +
				"stands for tensor × context devices. The groups hold the same parameters, and take part in the " +
				"sums of gradients and in ZeRO's shards like replicas. Needs attention = \"flash\"",
		},
		{
			Key: "context_method", Needs: severalParts(), Try: []string{ContextRing, ContextGather, ContextUlysses},
			Default: ContextRing, OneOf: []string{ContextRing, ContextGather, ContextUlysses}, With: withModel(),
			Text: "with context above 1, how the parts attend to each other. ring: keys and values go round during " +
				"the blocks of attention. all-gather: they are gathered before. ulysses: every device exchanges its " +
				"part of the sequence for whole sequences of some heads",
		},
		{
			Key: "sequence", Needs: tensorGroups(), Offered: "sequence", Try: []string{"false", "true"}, Default: false,
			Text: "with tensor above 1: norms, dropout and sums divided along the sequence",
		},
		{
			Key: "expert", Offered: "experts", Executed: []string{"1"}, Default: 1,
			Range: setting.Between(1, maxTensor), With: withModel(),
			Text: "devices of an expert group, which share the experts of a layer: neighbours in the order tensor, " +
				"context, data. expert × expert_tensor divides tensor × context × data. With tensor above 1 it needs " +
				"sequence = true. zero = 1 to 3 shards experts among the devices that hold the same ones",
		},
		{
			Key: "expert_tensor", Example: "1", Range: setting.Between(1, maxTensor), With: withModel(),
			Text: "devices that divide every expert", Unset: "tensor with expert = 1, else 1",
		},
		{
			Key: "dispatcher", Needs: severalExperts(), Try: []string{DispatcherDeepEP}, Default: DispatcherAllToAll,
			OneOf: []string{DispatcherAllToAll, DispatcherDeepEP}, With: withModel(),
			Text: "how tokens come to their experts. alltoall: a row for every expert. deepep: a token once to every " +
				"node, and there once to every device (see model.expert_groups)",
		},
		{
			Key: "dispatch", Needs: severalExperts(), Try: []string{DispatchFP8}, Default: DispatchWhole,
			OneOf: []string{DispatchWhole, DispatchFP8}, With: withModel(),
			Text: "precision of dispatched tokens. activations: as activations. fp8: 8 bits, only in the forward",
		},
		{
			Key: "expert_overlap", Needs: severalExperts(), Try: []string{"true"}, Default: false, With: withModel(),
			Text: "a backward and the forward after it run as a pair whose parts alternate, so that one computes " +
				"while the other exchanges tokens with experts, as with Megatron's " +
				"--overlap-moe-expert-parallel-comm: with 1f1b, interleaved-1f1b and ddp. 1f1b then begins with " +
				"twice as many forwards. dualpipe and dualpipev do so anyway",
		},
		{
			Key: "delay_weights", Needs: severalExperts(), Try: []string{"true"}, Default: false, With: withModel(),
			Text: "weight gradients are computed between the all-to-alls of a backward, after the input gradients " +
				"that these send, as with Megatron's --delay-wgrad-compute",
		},
		{
			Key: "tensor_overlap", Needs: tensorGroups(), Try: []string{"true"}, Default: true, With: withModel(),
			Text: "exchanges of the group in a backward run at the same time as weight gradients, " +
				"as in Megatron since 2022",
		},
		{
			Key: "tensor_gather", Needs: dividedSequence(), Default: GatherInput,
			OneOf: []string{GatherInput, GatherProduct}, With: withModel(),
			Text: "with sequence, what the group gathers. input: the input of a divided part, and again for the " +
				"gradients of its weights, as Megatron. product: the input of every product by itself, as where " +
				"PyTorch's ColwiseParallel has input_layouts; each is kept for the gradient",
		},
		{
			Key: "scatter_gather", Default: true, With: withModel(),
			Text: "without sequence, every device of the group sends its part to the next stage, which gathers them " +
				"over link",
		},
		{
			Key: "zero", Needs: severalReplicas(), Offered: "zero", Try: []string{"0", "1", "2", "3"},
			Executed: []string{"0", "3"}, Default: 0, Range: setting.Between(0, 3), With: withModel(),
			Text: "0 DDP, 1 optimizer sharded, 2 gradients as well, 3 parameters too (FSDP): every layer " +
				"is gathered for its F and B, its gradients scattered",
		},
		{
			Key: "zero_group", Needs: shardedStates(), Example: "8", Range: setting.Count(), With: withModel(),
			Text: "replicas that share what zero shards: a group of that many neighbours holds the whole. With " +
				"zero = 3 (hybrid sharding, HSDP) a group gathers and scatters by itself, and sums of shares go " +
				"between the groups; with zero = 1 it gathers updated parameters by itself, and needs " +
				"reduce_scatter = false. Must divide data",
			Unset: "data",
		},
		{
			Key: "gather", Default: GatherUnit, OneOf: []string{GatherUnit, GatherCopied,
				GatherTensor}, With: withModel(),
			Text: "with zero = 3, what is gathered and scattered together: unit, all tensors of a layer laid end to " +
				"end; copied, the same, and every gather is then copied into its tensors, as in FSDP2; or tensor, " +
				"each by itself: for vgg16 32 gathers a pass, not 8",
		},
		{
			Key: "gather_unit", Default: UnitBlock, OneOf: []string{UnitBlock, UnitStage}, With: withModel(),
			Text: "with zero = 3, the layers that are gathered at once: block, every layer by itself; stage, all of " +
				"them for the forward and again for the backward, so that memory peaks at the whole network, as if " +
				"autograd were called once for all layers",
		},
		{
			Key: "simplified", Default: false, With: withModel(),
			Text: "with zero = 3, only parameters are sharded: every replica keeps the whole model and its last " +
				"whole gradients in addition to its shards",
		},
		{
			Key: "sum_once", Needs: scatteredGradients(), Default: false, Executed: []string{"false"},
			With: withModel(),
			Text: "with zero = 2 or 3, the gradients of a step's microbatches are added up whole, in the precision " +
				"in which they are summed, and scattered after the last one, as with FSDP2's " +
				"set_requires_gradient_sync, and as PyTorch's pipelines do: zero = 2 is then as 1. With 3 it needs " +
				"overlap",
		},
		{
			Key: "overlap_gather", Needs: gatherAfterUpdate(), Try: []string{"true"}, Default: false, With: withModel(),
			Text: "with zero = 1 or 2, updated parameters are gathered during the next forward, piece by piece as it " +
				"needs them, not after the update: a step then begins with these gathers. Not with " +
				"schedule.whole_last",
		},
		{
			Key: "gather_updated", Needs: gatherAfterUpdate(), Default: UpdatedByBucket,
			OneOf: []string{UpdatedByBucket, UpdatedByStage, UpdatedByOwner}, With: withModel(),
			Text: "with zero = 1 or 2 and without overlap_gather, how updated parameters come to all replicas. " +
				"bucket: a gather for every bucket of gradients. stage: one for all. owner: every replica " +
				"broadcasts the part that it has updated, one after another",
		},
		{
			Key: "reduce_scatter", Needs: shardedGradients(), Default: true, With: withModel(),
			Text: "with zero = 1 to 3, gradients are reduce-scattered. false: all-reduced, and every replica keeps " +
				"its share of the sum",
		},
		{
			Key: "broadcast", Needs: otherReplicas(), Default: false, With: withModel(),
			Text: "the step is the first of a training, before which replica 0 sends its parameters to the others, " +
				"in the buckets of gradients; startup_s of the result is the time of that. Not with zero = 3",
		},
		{
			Key: "bucket", Needs: gradientBuckets(), Assumed: true, Default: "25MB", With: withModel(),
			Text: `of gradients: a size, or a number as in "40000000 gradients"; "tensor": every tensor by itself; ` +
				`no meaning with zero = 3, which sums whole layers`,
		},
		{
			Key: "overlap", Needs: severalReplicas(), Try: []string{"true"}, Assumed: true,
			Default: true, With: withModel(),
			Text: "gradients travel during the backward; with zero = 3 the next layer is gathered while this one " +
				"works",
		},
		{
			Key: "collectives", Needs: severalReplicas(), Assumed: true, Default: "nccl", OneOf: []string{"nccl",
				"gloo"},
			With: withModel(),
			Text: "nccl, or gloo, which has no reduce-scatter: with gloo zero = 1 to 3 all-reduce. It works in the " +
				"memory of the host, so that collectives on GPUs are between copies over machine.host_link",
		},
		{
			Key: "order", Default: StagesFirst, OneOf: []string{StagesFirst, ReplicasFirst}, With: withModel(),
			Text: "which devices are neighbours on nodes, after those of a tensor-parallel group: the stages " +
				"of a replica, or the replicas of a stage, as in Megatron, DeepSpeed and torchtitan",
		},
	}
}

// The values of Options.Order, in which devices are counted, as Megatron names them.
const (
	StagesFirst   = "tp-pp-dp"
	ReplicasFirst = "tp-dp-pp"
)

// The values of Options.ContextMethod: how the parts of a sequence attend to each other.
const (
	ContextRing    = "ring"
	ContextGather  = "all-gather"
	ContextUlysses = "ulysses"
)

// The values of Options.Dispatcher and Options.Dispatch: how tokens come to experts on other
// devices, and in which precision.
const (
	DispatcherAllToAll = "alltoall"
	DispatcherDeepEP   = "deepep"
	DispatchWhole      = "activations"
	DispatchFP8        = "fp8"
)

// The values of Options.Gather: the tensors that ZeRO 3 gathers and scatters together.
const (
	GatherUnit   = "unit"
	GatherCopied = "copied" // as unit, and copied into its tensors
	GatherTensor = "tensor"
)

// The values of Options.TensorGather: what a tensor group gathers at once.
const (
	GatherInput   = "input"
	GatherProduct = "product"
)

// The values of Options.Unit: the layers that ZeRO 3 gathers at once.
const (
	UnitBlock = "block"
	UnitStage = "stage"
)

// The values of Options.GatherUpdated: the collectives that bring updated parameters to all replicas.
const (
	UpdatedByBucket = "bucket"
	UpdatedByStage  = "stage"
	UpdatedByOwner  = "owner"
)

// UpdatedBy reports whether updated parameters come to all replicas in one of these ways.
func (p Options) UpdatedBy(way string) bool { return p.GatherUpdated == way }

// Sharing returns the number of neighbouring replicas among which optimizer states are sharded, or 0 if
// these are all.
func (p Options) Sharing() int {
	if p.ZeroGroup == p.Data || p.Zero != 1 && p.Zero != 3 {
		return 0
	}
	return p.ZeroGroup
}

// Sharded returns the ZeRO stage by which memory and collectives are counted: gradients that are summed once a step are
// whole until then, so that zero = 2 shards no more than 1.
func (p Options) Sharded() int {
	if p.Zero == 2 && p.SumOnce {
		return 1
	}
	return p.Zero
}

// maxTensor bounds a tensor-parallel group: no model has more heads.
const maxTensor = 1 << 16

// CheckGroups refuses groups of replicas that do not share what zero shards, and what is not modelled where these are
// experts.
func (p Options) CheckGroups() error {
	switch {
	case p.Zero != 1 && p.Zero != 3: // it has no effect
	case p.ZeroGroup > 0 && p.Data%p.ZeroGroup != 0:
		return fmt.Errorf("zero_group = %d: must divide data = %d; set a divisor of it", p.ZeroGroup, p.Data)
	case p.Sharing() == 1 && p.Zero == 3 && p.Context <= 1:
		return errors.New("zero_group = 1: with zero = 3 a replica alone shares nothing; " +
			"set zero = 0, or more replicas")
	case p.Sharing() > 0 && p.Zero == 1 && p.ReduceScatter:
		return fmt.Errorf("zero_group = %d: is modelled with gradients that are all-reduced over all replicas; "+
			"set reduce_scatter = false", p.ZeroGroup)
	case p.Zero == 3 && p.dispatches():
		return p.checkShardedExperts()
	}
	return nil
}

// dispatches reports whether experts are divided differently from the rest.
func (p Options) dispatches() bool {
	return p.Expert > 1 || p.ExpertTensor > 0 && p.ExpertTensor != max(1, p.Tensor)
}

// Validate checks the rules that involve only keys of this section.
func (p Options) Validate() error {
	switch {
	case p.Sequence && p.Tensor == 1:
		return errors.New("sequence = true: divides the sequence among a tensor-parallel group, and tensor = 1; " +
			"set tensor above 1, or sequence = false")
	case p.CheckGroups() != nil:
		return p.CheckGroups()
	case p.Broadcast && p.Zero == 3:
		return errors.New("broadcast = true: with zero = 3 no replica has all parameters to send; " +
			"set broadcast = false, or a lower zero")
	case p.Simplified && p.Zero != 3:
		return fmt.Errorf("simplified = true: is a form of zero = 3, and zero = %d; "+
			"set zero = 3, or simplified = false", p.Zero)
	case p.SumOnce && p.Zero == 3 && !p.Overlap:
		return errors.New("sum_once = true: is modelled with overlap; set overlap = true, or sum_once = false")
	case p.Gather == GatherTensor && p.Zero != 3:
		return fmt.Errorf(`gather = "tensor": only zero = 3 gathers parameters to compute with them, and zero = %d; `+
			`set zero = 3, or gather = "unit"`, p.Zero)
	case p.Unit == UnitStage && p.Zero != 3:
		return fmt.Errorf(`gather_unit = "stage": only zero = 3 gathers layers to compute with them, and zero = %d; `+
			`set zero = 3, or gather_unit = "block"`, p.Zero)
	}
	return p.checkExperts()
}

// checkExperts checks that expert groups are parts of ranks, or whole ranks.
func (p Options) checkExperts() error {
	rank, tensor := max(1, p.Tensor)*max(1, p.Context), max(1, p.ExpertTensor)
	experts := max(1, p.Expert) * tensor
	devices := rank * max(1, p.Data)
	switch {
	case experts == 1:
		return nil
	case devices%experts != 0:
		return fmt.Errorf("expert = %d: expert × expert_tensor = %d must divide tensor × context × data = %d",
			p.Expert, experts, devices)
	case rank%experts != 0 && experts%rank != 0:
		return fmt.Errorf("expert = %d: groups of expert × expert_tensor = %d devices must be parts of a rank's "+
			"tensor × context = %d, or whole ranks", p.Expert, experts, rank)
	case rank%tensor != 0:
		return fmt.Errorf("expert_tensor = %d: must divide tensor × context = %d", p.ExpertTensor, rank)
	}
	return nil
}

// checkShardedExperts refuses what is not modelled where ZeRO 3 shards experts among the devices that hold the same
// ones.
func (p Options) checkShardedExperts() error {
	const with = "is not modelled with zero = 3 and experts that are divided differently from the rest; set "
	switch {
	case max(1, p.Data)*max(1, p.Context) == 1:
		return errors.New("zero = 3: there is one replica, which shares nothing but experts; " +
			"set zero = 2, or data above 1")
	case p.Sharing() > 0:
		return fmt.Errorf("zero_group = %d: %szero_group = data", p.ZeroGroup, with)
	case p.Gather == GatherTensor:
		return fmt.Errorf("gather = %q: %sgather = %q", p.Gather, with, GatherUnit)
	case p.Simplified:
		return errors.New("simplified = true: " + with + "simplified = false")
	case p.ExpertOverlap:
		return errors.New("expert_overlap = true: " + with + "expert_overlap = false")
	case p.DelayWeights:
		return errors.New("delay_weights = true: " + with + "delay_weights = false")
	}
	return nil
}
