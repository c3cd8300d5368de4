package schedules

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// Options is the [schedule] section.
type Options struct {
	Name          string      `toml:"name"`
	Stages        int         `toml:"stages"` // pipeline ranks
	Microbatches  int         `toml:"microbatches"`
	VirtualStages int         `toml:"virtual_stages"` // stages per rank
	Group         int         `toml:"group"`          // microbatches that pass through a rank's chunks together
	File          string      `toml:"file"`           // an order in PyTorch's CSV notation, in place of a name
	Partition     PartitionBy `toml:"partition"`
	Placement     []int32     `toml:"placement"` // rank of every stage, or with TaggedPartition of every layer
	Synchronous   bool        `toml:"synchronous"`
	WholeLast     bool        `toml:"whole_last"` // see wiring.Pipeline
}

// Settings describes [schedule].
func (Options) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "name", Example: `"1f1b"`, Shown: true, Text: `psim list schedules; "fsdp": ddp with parallel.zero = 3; "auto": the order of F, I and W with the shortest span under the memory of a rank; "auto-v": the same for two stages per rank, in a V`, Unset: "none; give a name or a file"},
		{Key: "stages", Default: 1, Example: "4", Shown: true, Range: setting.Count(), Text: "pipeline ranks (P)"},
		{Key: "microbatches", Example: "8", Shown: true, Range: setting.Count(), Text: "per replica and step (M)", Unset: "as [batch] has it, or 1"},
		{Key: "virtual_stages", Default: 1, Range: setting.Count(), Text: "stages per rank (V) of the schedules that hold several; hanayo: 2 for each wave"},
		{Key: "group", Example: "4", Range: setting.Between(0, math.MaxInt32), Text: "interleaved-1f1b: microbatches per round, as Megatron counts", Unset: "M/P rounds of equal size, as with 0"},
		{Key: "file", Example: `"mine.csv"`, Text: "in place of name: any order, in PyTorch's notation, a line per rank, as psim schedule --format csv writes", Unset: "none"},
		{Key: "partition", Example: `"balanced"`, With: []string{"[model]"}, Text: `of the layers: "balanced" (by time), "equal" (in number), "preset" (for gpt2, blocks in equal runs and the head back on rank 0; for vgg16-pipeline and vgg-mini-pipeline, a fixed cut for 1 to 6 ranks), "tagged" (placement has the rank of every layer, and a stage ends where it changes), or the layers per stage: [3, 4, 4, 4]`, Unset: "balanced"},
		{Key: "placement", Example: "[0, 1, 2, 3]", Text: "the rank of every stage; several may share one. With partition = \"tagged\", of every layer", Unset: "the schedule's own"},
		{Key: "synchronous", Default: false, Text: "true: a barrier after every clock cycle, as in Pipe"},
		{Key: "whole_last", Default: false, Text: "true: the last stage takes all microbatches at once, where only the blocks before a head are pipelined"},
	}
}

// Batch is the [batch] section: samples per step over all replicas, and per
// microbatch of one replica. 0 is not given.
type Batch struct {
	Global int64     `toml:"global"`
	Micro  int64     `toml:"micro"`
	Shards []float64 `toml:"shards"` // of Global, by replica; nil are equal ones
}

// Settings describes [batch].
func (Batch) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "global", Example: "32", Shown: true, Range: setting.Count(), Text: "samples per step over all replicas", Unset: "micro × microbatches × replicas"},
		{Key: "micro", Example: "4", Range: setting.Count(), Text: "samples per microbatch of one replica", Unset: "a replica's samples in schedule.microbatches parts"},
		{Key: "shards", Example: "[0.5, 0.25, 0.25]", With: []string{"[model]"}, Text: "share of global that each replica trains on, which the slowest one decides then: one number per replica, adding up to 1. Every share is cut into schedule.microbatches, whose gradients count by their samples", Unset: "equal ones"},
	}
}

// Data is the [data] section: what an epoch is a pass over. 0 is not given.
type Data struct {
	Samples int64 `toml:"samples"`
}

// Settings describes [data].
func (Data) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "samples", Example: "5000", Range: setting.Count(), Text: "samples to train on: psim run tells the time of an epoch, psim exec trains on so many; with less than a step's left, a step is filled up from the beginning", Unset: "all there are; made-up samples have no number of their own"},
	}
}

// Parallel is the [parallel] section.
type Parallel struct {
	Data          int      `toml:"data"`   // replicas
	Tensor        int      `toml:"tensor"` // devices of a tensor-parallel group, which is one rank
	Sequence      bool     `toml:"sequence"`
	Expert        int      `toml:"expert"`        // devices that share the experts of a layer
	ExpertTensor  int      `toml:"expert_tensor"` // that divide each of these; 0 is Tensor without Expert, else 1
	Dispatcher    string   `toml:"dispatcher"`
	Dispatch      string   `toml:"dispatch"` // precision of what is dispatched
	TensorOverlap bool     `toml:"tensor_overlap"`
	ScatterGather bool     `toml:"scatter_gather"`
	Zero          int      `toml:"zero"`
	Gather        string   `toml:"gather"`         // of zero = 3; "" is GatherUnit
	Simplified    bool     `toml:"simplified"`     // of zero = 3
	OverlapGather bool     `toml:"overlap_gather"` // of zero = 1 and 2
	Broadcast     bool     `toml:"broadcast"`
	Bucket        BucketBy `toml:"bucket"`
	Overlap       bool     `toml:"overlap"`
	Collectives   string   `toml:"collectives"` // "" is nccl
	Order         string   `toml:"order"`       // "" is StagesFirst
}

// Settings describes [parallel]. The default bucket is PyTorch's.
func (Parallel) Settings() []setting.Setting {
	model := []string{"[model]"}
	return []setting.Setting{
		{Key: "data", Default: 1, Range: setting.Count(), Text: "replicas; stages × data × tensor devices in all"},
		{Key: "tensor", Default: 1, Range: setting.Between(1, maxTensor), Text: "devices of a tensor-parallel group, as in Megatron: a rank stands for one group, whose devices do the same"},
		{Key: "sequence", Default: false, Text: "with tensor above 1: norms, dropout and sums divided along the sequence"},
		{Key: "expert", Default: 1, Range: setting.Between(1, maxTensor), With: model, Text: "devices of an expert group, which share the experts of a layer: neighbours in the order tensor, context, data. expert × expert_tensor divides tensor × context × data. With tensor above 1 it takes sequence = true"},
		{Key: "expert_tensor", Example: "1", Range: setting.Between(1, maxTensor), With: model, Text: "devices that divide every expert", Unset: "tensor with expert = 1, else 1"},
		{Key: "dispatcher", Default: DispatcherAllToAll, OneOf: []string{DispatcherAllToAll, DispatcherDeepEP}, With: model, Text: "how tokens come to their experts. alltoall: a row for every expert. deepep: a token once to every node, and there once to every device (see model.expert_groups)"},
		{Key: "dispatch", Default: DispatchWhole, OneOf: []string{DispatchWhole, DispatchFP8}, With: model, Text: "as activations are: activations; or fp8: in 8 bits, in the forward alone"},
		{Key: "tensor_overlap", Default: true, With: model, Text: "what the group exchanges in a backward runs beside weight gradients, as in Megatron since 2022"},
		{Key: "scatter_gather", Default: true, With: model, Text: "without sequence, every device of the group sends its part to the next stage, which gathers them over link"},
		{Key: "zero", Default: 0, Range: setting.Between(0, 3), With: model, Text: "0 DDP, 1 optimizer sharded, 2 gradients as well, 3 parameters too (FSDP; ddp only): every layer is gathered for its F and B, its gradients scattered"},
		{Key: "gather", Default: GatherUnit, OneOf: []string{GatherUnit, GatherCopied, GatherTensor}, With: model, Text: "with zero = 3, what is gathered and scattered together: unit, all tensors of a layer laid end to end; copied, the same, of which every gather then is copied into its tensors, as in FSDP2; or tensor, each by itself, as in the course's code: for vgg16 32 gathers a pass, not 8"},
		{Key: "simplified", Default: false, With: model, Text: "with zero = 3, parameters alone are sharded, as in the course's code: every replica keeps the whole model and its last whole gradients beside its shares"},
		{Key: "overlap_gather", Default: false, With: model, Text: "with zero = 1 or 2, updated parameters are gathered beside the next forward, piece by piece as it needs them, not after the update: a step then begins with these gathers. Not with schedule.whole_last"},
		{Key: "broadcast", Default: false, With: model, Text: "the step is the first of a training, before which replica 0 sends its parameters to the others, in the buckets of gradients; startup_s of the result says how much of the step that is. Not with zero = 3"},
		{Key: "bucket", Default: "25MB", With: model, Text: `of gradients; "tensor": every tensor by itself; no meaning with zero = 3, which sums whole layers`},
		{Key: "overlap", Default: true, With: model, Text: "gradients travel beside the backward; with zero = 3 the next layer is gathered beside this one's work"},
		{Key: "collectives", Default: "nccl", OneOf: []string{"nccl", "gloo"}, With: model, Text: "nccl, or gloo, which has no reduce-scatter: zero = 1 to 3 all-reduce instead"},
		{Key: "order", Default: StagesFirst, OneOf: []string{StagesFirst, ReplicasFirst}, With: model, Text: "which devices lie beside each other on nodes, after those of a tensor-parallel group: the stages of a replica, or the replicas of a stage, as in Megatron, DeepSpeed and torchtitan"},
	}
}

// The orders in which devices are counted, as Megatron names them.
const (
	StagesFirst   = "tp-pp-dp"
	ReplicasFirst = "tp-dp-pp"
)

// How tokens come to experts on other devices, and in which precision.
const (
	DispatcherAllToAll = "alltoall"
	DispatcherDeepEP   = "deepep"
	DispatchWhole      = "activations"
	DispatchFP8        = "fp8"
)

// What ZeRO 3 gathers and scatters together.
const (
	GatherUnit   = "unit"
	GatherCopied = "copied" // as unit, and copied into its tensors
	GatherTensor = "tensor"
)

// The rules by which layers become stages.
const (
	BalancedPartition = "balanced"
	EqualPartition    = "equal"
	PresetPartition   = "preset" // the cut that belongs to the network (see arch.PresetSplit)
	TaggedPartition   = "tagged" // layers have ranks: a stage is a run of layers on one
)

// PartitionBy says how layers become stages: by a rule, or by the number of
// layers of every stage.
type PartitionBy struct {
	Rule   string
	Layers []int
}

// UnmarshalTOML reads a rule or a list. "course" is an older name of "preset".
func (p *PartitionBy) UnmarshalTOML(value any) error {
	const use = `use "balanced" (by time), "equal" (in number), "preset" (the network's own), "tagged" (as placement has them), or the layers per stage, such as [3, 4, 4, 3]`
	switch v := value.(type) {
	case string:
		if v == "course" {
			v = PresetPartition
		}
		if !slices.Contains([]string{BalancedPartition, EqualPartition, PresetPartition, TaggedPartition}, v) {
			return fmt.Errorf("unknown partition %q; %s", v, use)
		}
		*p = PartitionBy{Rule: v}
		return nil
	case []any:
		*p = PartitionBy{}
		for _, e := range v {
			n, ok := e.(int64)
			if !ok || n < 1 || n > 1<<20 {
				return fmt.Errorf("%v is not a number of layers; every stage needs at least one", e)
			}
			p.Layers = append(p.Layers, int(n))
		}
		if len(p.Layers) > 0 {
			return nil
		}
	}
	return errors.New("must be a rule or a list: " + use)
}

// TOML writes what UnmarshalTOML reads.
func (p PartitionBy) TOML() any {
	if p.Layers == nil {
		return p.Rule
	}
	var list []any
	for _, n := range p.Layers {
		list = append(list, float64(n))
	}
	return list
}

// BucketBy is the limit of a gradient bucket in bytes; 0 sends one tensor at
// a time.
type BucketBy int64

// UnmarshalText reads a size, or "tensor".
func (b *BucketBy) UnmarshalText(text []byte) error {
	if string(text) == "tensor" {
		*b = 0
		return nil
	}
	size, err := units.ParseBytes(string(text))
	if err != nil {
		return fmt.Errorf(`%w (or "tensor": one collective per parameter tensor)`, err)
	}
	if size == 0 {
		return errors.New(`a bucket of 0 bytes; write "tensor" to send every parameter tensor by itself`)
	}
	*b = BucketBy(size)
	return nil
}

// TOML writes what UnmarshalText reads.
func (b BucketBy) TOML() any {
	if b == 0 {
		return "tensor"
	}
	return units.Bytes(b).String()
}

// Samples cuts one replica's share of a batch into microbatches and returns
// the size of each; the last may be smaller. microbatches is 0 where it is
// not given.
func (b Batch) Samples(replicas, microbatches int) ([]int64, error) {
	d, m := int64(replicas), int64(microbatches)
	if b.Global > 0 && b.Global%d != 0 {
		return nil, fmt.Errorf("global = %d: cannot be shared equally by parallel.data = %d replicas", b.Global, d)
	}
	perReplica, micro := b.Global/d, b.Micro
	switch {
	case b.Global == 0 && micro == 0:
		return nil, errors.New("global is missing: give the samples per step (batch.global), or per microbatch (batch.micro)")
	case b.Global == 0 && m > graph.MaxTasks:
		return nil, fmt.Errorf("micro = %d: schedule.microbatches = %d is more than the %d that are supported", micro, m, graph.MaxTasks)
	case b.Global == 0:
		return slices.Repeat([]int64{micro}, int(max(1, m))), nil
	case micro == 0:
		micro = (perReplica + max(1, m) - 1) / max(1, m)
	}
	if micro > perReplica {
		return nil, fmt.Errorf("micro = %d: larger than the %d samples that a replica gets per step (batch.global / parallel.data)", micro, perReplica)
	}
	count := (perReplica + micro - 1) / micro
	if m > 0 && count != m {
		if b.Micro == 0 {
			return nil, fmt.Errorf("global = %d: a replica's %d samples cannot be cut into schedule.microbatches = %d equal microbatches with only the last one smaller; schedule.microbatches = %d would work",
				b.Global, perReplica, m, count)
		}
		return nil, fmt.Errorf("micro = %d: %d samples per replica (batch.global / parallel.data) make %d microbatches of that size, but schedule.microbatches = %d; remove one of the three", micro, perReplica, count, m)
	}
	if count > graph.MaxTasks {
		return nil, fmt.Errorf("global = %d: makes %d microbatches; at most %d are supported", b.Global, count, graph.MaxTasks)
	}
	samples := slices.Repeat([]int64{micro}, int(count))
	samples[count-1] = perReplica - micro*(count-1)
	return samples, nil
}

// maxTensor bounds a tensor-parallel group: no model has as many heads.
const maxTensor = 1 << 16

// Validate checks what no other section can change.
func (p Parallel) Validate() error {
	switch {
	case p.Sequence && p.Tensor == 1:
		return errors.New("sequence = true: divides the sequence among a tensor-parallel group, and tensor = 1; set tensor above 1, or sequence = false")
	case p.Broadcast && p.Zero == 3:
		return errors.New("broadcast = true: with zero = 3 no replica has all parameters to send; set broadcast = false, or a lower zero")
	case p.Simplified && p.Zero != 3:
		return fmt.Errorf("simplified = true: is a form of zero = 3, and zero = %d; set zero = 3, or simplified = false", p.Zero)
	case p.Gather == GatherTensor && p.Zero != 3:
		return fmt.Errorf(`gather = "tensor": only zero = 3 gathers parameters to compute with them, and zero = %d; set zero = 3, or gather = "unit"`, p.Zero)
	}
	return p.checkExperts()
}

// checkExperts wants expert groups to lie within ranks, or to be whole ones.
func (p Parallel) checkExperts() error {
	rank, experts, tensor := max(1, p.Tensor), max(1, p.Expert)*max(1, p.ExpertTensor), max(1, p.ExpertTensor)
	devices := rank * max(1, p.Data)
	switch {
	case experts == 1:
		return nil
	case p.Expert > 1 && p.Zero == 3:
		return fmt.Errorf("expert = %d: is not modelled with zero = 3; set a lower zero, or expert = 1", p.Expert)
	case devices%experts != 0:
		return fmt.Errorf("expert = %d: expert × expert_tensor = %d must divide tensor × context × data = %d", p.Expert, experts, devices)
	case rank%experts != 0 && experts%rank != 0:
		return fmt.Errorf("expert = %d: groups of expert × expert_tensor = %d devices must be parts of a rank's tensor × context = %d, or whole ranks", p.Expert, experts, rank)
	case rank%tensor != 0:
		return fmt.Errorf("expert_tensor = %d: must divide tensor × context = %d", p.ExpertTensor, rank)
	}
	return nil
}
