package costmodel

import (
	"fmt"

	"psim/costmodel/stages"
	"psim/internal/setting"
	"psim/internal/units"
)

// MemoryOptions is the [memory] section. With [times] it describes the activations of one
// microbatch on one stage; with a network, the memory that a process holds besides its tensors.
type MemoryOptions struct {
	Activation           units.Bytes `toml:"activation"`
	FreedByInputGradient units.Bytes `toml:"freed_by_input_gradient"` // part of Activation
	Limit                units.Bytes `toml:"limit"`                   // per rank, activations only; 0 is unlimited

	Context        units.Bytes `toml:"context"`
	Buffers        units.Bytes `toml:"buffers"` // of the communication library, for each group
	Allocator      float64     `toml:"allocator"`
	GradientCopies bool        `toml:"gradient_copies"`
	KeepOutputs    Outputs     `toml:"keep_outputs"`
	FP32Shards     bool        `toml:"fp32_shards"`
	FreedGradients bool        `toml:"freed_gradients"`
}

// Settings describes [memory].
func (MemoryOptions) Settings() []setting.Setting {
	times, model := []string{"[times]"}, []string{"[model]"}
	return append([]setting.Setting{
		{
			Key: "activation", With: times, Default: "0B", Example: `"2GB"`, Shown: true,
			Text: "activations of one microbatch on one stage; allocated when F starts",
		},
		{
			Key: "freed_by_input_gradient", With: times, Default: "0B",
			Text: "the part of activation that is freed when I ends; the rest is freed with W or B",
		},
		{
			Key: "limit", With: times, Example: `"16GB"`, Range: setting.Positive(), Unset: "none",
			Text: "limit of a rank's activations",
		},
		{
			Key: "context", With: model, Default: "0B", Example: `"1.6GB"`,
			Text: "device memory of a process before its first tensor: the driver's context, kernels, and the " +
				"workspaces of libraries",
		},
		{
			Key: "buffers", With: model, Default: "0B", Example: `"688MiB"`,
			Text: "memory of the communication library for each group of a device: replicas, tensor group, " +
				"pipeline, and all devices if a device is in several of these groups",
		},
		{
			Key: "allocator", With: model, Default: 0.0, Example: "0.2", Range: setting.Between(0, 4),
			Text: "memory that the allocator holds beyond the tensors that are allocated and freed during a step, " +
				"as a share of these tensors",
		},
	}, heldSettings(model)...)
}

// heldSettings describes what is held of gradients, weights and results.
func heldSettings(model []string) []setting.Setting {
	return []setting.Setting{
		{
			Key: "gradient_copies", With: model, Default: false,
			Text: "true: gradients are held in 16 bits and in fp32. With bf16, where they are added up in fp32, both " +
				"copies are whole; with fp16, the whole gradients are in 16 bits, and the optimizer's share of them " +
				"is held flat in 16 bits and in fp32",
		},
		{
			Key: "keep_outputs", With: model, Default: false,
			Text: `true: a stage keeps the result that it sent until its backward, which autograd begins with it; ` +
				`"partitioned": the same, but each device of a tensor group keeps only a part, which all gather ` +
				`for the backward; false: the result is freed after it was sent`,
		},
		{
			Key: "fp32_shards", With: model, Default: false,
			Text: "true: ZeRO 3 shards only fp32 weights and gradients, and casts weights when it gathers them; " +
				"false: it also shards a copy in the precision of training",
		},
		{
			Key: "freed_gradients", With: model, Default: false,
			Text: "true: the update frees gradients, as zero_grad of PyTorch does, so that there are none during a " +
				"forward; it has an effect with one microbatch, and without an all-reduce, whose buckets stay; " +
				"false: gradients stay from step to step",
		},
	}
}

// Validate refuses to free more by I than was allocated.
func (m MemoryOptions) Validate() error {
	if m.FreedByInputGradient > m.Activation {
		return fmt.Errorf("freed_by_input_gradient = %q: more than activation = %q",
			m.FreedByInputGradient, m.Activation)
	}
	return nil
}

// Process returns the memory that a process holds besides its tensors, if its device communicates
// in the given number of groups.
func (m MemoryOptions) Process(groups int) stages.ProcessMemory {
	return stages.ProcessMemory{
		Context: int64(m.Context), Buffers: int64(m.Buffers) * int64(groups), Allocator: m.Allocator,
		GradientCopies: m.GradientCopies, FP32Shards: m.FP32Shards, FreedGradients: m.FreedGradients,
		KeepOutputs: m.KeepOutputs != FreedOutputs, PartOutputs: m.KeepOutputs == PartitionedOutputs,
	}
}

// Outputs says whether a stage keeps its result after sending it, until its backward.
type Outputs uint8

// The ways to keep results.
const (
	FreedOutputs       Outputs = iota // not at all
	WholeOutputs                      // whole, on every device
	PartitionedOutputs                // divided among the devices of a tensor group
)

const partitioned = "partitioned"

// UnmarshalTOML reads true, false or "partitioned".
func (o *Outputs) UnmarshalTOML(value any) error {
	switch value {
	case false:
		*o = FreedOutputs
	case true:
		*o = WholeOutputs
	case partitioned:
		*o = PartitionedOutputs
	default:
		return fmt.Errorf("must be true, false or %q (of a tensor group each device keeps a part)", partitioned)
	}
	return nil
}

// TOML writes what UnmarshalTOML reads.
func (o Outputs) TOML() any {
	if o == PartitionedOutputs {
		return partitioned
	}
	return o == WholeOutputs
}
