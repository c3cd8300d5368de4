package costmodel

import (
	"fmt"

	"psim/costmodel/stages"
	"psim/internal/setting"
	"psim/internal/units"
)

// MemoryOptions is the [memory] section. With [times] it is the activations of one
// microbatch on one stage, with a network what a process holds beside its tensors.
type MemoryOptions struct {
	Activation           units.Bytes `toml:"activation"`
	FreedByInputGradient units.Bytes `toml:"freed_by_input_gradient"` // part of Activation
	Limit                units.Bytes `toml:"limit"`                   // per rank, activations only; 0 is unlimited

	Context        units.Bytes `toml:"context"`
	Buffers        units.Bytes `toml:"buffers"` // for each group
	Allocator      float64     `toml:"allocator"`
	GradientCopies bool        `toml:"gradient_copies"`
	KeepOutputs    Outputs     `toml:"keep_outputs"`
	FP32Shards     bool        `toml:"fp32_shards"`
}

// Settings describes [memory].
func (MemoryOptions) Settings() []setting.Setting {
	times, model := []string{"[times]"}, []string{"[model]"}
	return []setting.Setting{
		{
			Key: "activation", With: times, Default: "0B", Example: `"2GB"`, Shown: true,
			Text: "of one microbatch on one stage; allocated when F starts",
		},
		{
			Key: "freed_by_input_gradient", With: times, Default: "0B",
			Text: "this part of it is freed when I ends, the rest with W or B",
		},
		{
			Key: "limit", With: times, Example: `"16GB"`, Range: setting.Positive(), Unset: "none",
			Text: "of a rank, for activations alone",
		},
		{
			Key: "context", With: model, Default: "0B", Example: `"1.6GB"`,
			Text: "what a process takes of its device before any tensor: the driver's context, kernels and " +
				"workspaces of libraries",
		},
		{
			Key: "buffers", With: model, Default: "0B", Example: `"688MiB"`,
			Text: "what the communication library takes for each group that a device is in: replicas, tensor group, " +
				"pipeline, and all devices together where these are several",
		},
		{
			Key: "allocator", With: model, Default: 0.0, Example: "0.2", Range: setting.Between(0, 4),
			Text: "what the allocator holds beyond the tensors that come and go, as a share of these",
		},
		{
			Key: "gradient_copies", With: model, Default: false,
			Text: "true: gradients are held in 16 bits and in fp32: both whole where they are added up in fp32 " +
				"(bf16), else (fp16) in 16 bits whole, and as the optimizer takes its share, flat in 16 bits and in " +
				"fp32",
		},
		{
			Key: "keep_outputs", With: model, Default: false,
			Text: `true: what a stage has sent stays until its backward, of which autograd begins with it; ` +
				`"partitioned": likewise, but of a tensor group each device keeps its part alone, and all gather it ` +
				`for the backward; false: it is freed when it has been sent`,
		},
		{
			Key: "fp32_shards", With: model, Default: false,
			Text: "true: ZeRO 3 shards fp32 weights and gradients alone, and casts weights as it gathers them; " +
				"false: in the precision of training as well",
		},
	}
}

// Validate checks that the part freed early is a part.
func (m MemoryOptions) Validate() error {
	if m.FreedByInputGradient > m.Activation {
		return fmt.Errorf("freed_by_input_gradient = %q: more than activation = %q", m.FreedByInputGradient, m.Activation)
	}
	return nil
}

// Process is what a process holds beside its tensors where a device communicates in so
// many groups.
func (m MemoryOptions) Process(groups int) stages.ProcessMemory {
	return stages.ProcessMemory{
		Context: int64(m.Context), Buffers: int64(m.Buffers) * int64(groups),
		Allocator: m.Allocator, GradientCopies: m.GradientCopies, KeepOutputs: m.KeepOutputs != FreedOutputs, PartOutputs: m.KeepOutputs == PartitionedOutputs, FP32Shards: m.FP32Shards,
	}
}

// Outputs says what stays of a stage's result after it was sent, until its backward.
type Outputs uint8

// What may stay of it.
const (
	FreedOutputs       Outputs = iota
	WholeOutputs               // on every device
	PartitionedOutputs         // over the devices of a tensor group
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
