package schedules

import (
	"errors"
	"fmt"
	"math"

	"psim/internal/setting"
	"psim/schedules/graph"
)

// Options is the [schedule] section.
type Options struct {
	Name          string      `toml:"name"`
	Stages        int         `toml:"stages"` // pipeline ranks
	Microbatches  int         `toml:"microbatches"`
	VirtualStages int         `toml:"virtual_stages"` // stages per rank
	Group         int         `toml:"group"`          // microbatches that pass through a rank's chunks together
	File          string      `toml:"file"`           // an order in PyTorch's CSV notation, instead of a name
	Partition     PartitionBy `toml:"partition"`
	FirstBlocks   int         `toml:"first_blocks"` // blocks of the first stage, with BlocksPartition
	LastBlocks    int         `toml:"last_blocks"`  // blocks of the last stage, with BlocksPartition
	Placement     []int32     `toml:"placement"`    // rank of every stage, or with TaggedPartition of every layer
	Synchronous   bool        `toml:"synchronous"`
	WholeLast     bool        `toml:"whole_last"` // see wiring.Pipeline
	Detail        string      `toml:"detail"`     // StepDetail or LoopDetail; "" is StepDetail
}

// Settings describes [schedule].
func (Options) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "name", Example: `"1f1b"`, Shown: true, Unset: "none; give a name or a file",
			Needs: []setting.Need{
				{Keys: []string{"schedule.file"}, Unset: true}, {Keys: []string{"schedule.stages"}, Above: 1},
			},
			Offered: "schedules", Prices: []string{graph.Waiting},
			Text: `psim list schedules; "fsdp": ddp with parallel.zero = 3; "auto": the order of F, I and W with the ` +
				`shortest span under the memory of a rank; "auto-v": the same for two stages per rank, in a V`,
		},
		{Key: "stages", Default: 1, Example: "4", Shown: true, Range: setting.Count(), Text: "pipeline ranks (P)"},
		{
			Key: "microbatches", Prices: []string{graph.Waiting}, Example: "8", Shown: true, Range: setting.Count(),
			Text: "per replica and step (M)", Unset: "as [batch] has it, or 1",
		},
		{Key: "virtual_stages", Default: 1, Range: setting.Count(),
			Text: "stages per rank (V) of the schedules that hold several; hanayo: 2 for each wave"},
		{Key: "group", Example: "4", Range: setting.Between(0, math.MaxInt32),
			Text:  "interleaved-1f1b: microbatches per round, as Megatron counts",
			Unset: "M/P rounds of equal size, as with 0"},
		{Key: "file", Example: `"mine.csv"`, Unset: "none",
			Text: "in place of name: any order, in PyTorch's notation, a line per rank, " +
				"as psim schedule --format csv writes"},
		{Key: "partition", Example: `"balanced"`, With: []string{"[model]"}, Unset: "balanced",
			Text: `of the layers: "balanced" (by time), "equal" (in number), "blocks" (of a transformer, as many in ` +
				`every stage; layers before them are on the first stage and layers after them on the last, which ` +
				`have fewer where stages do not divide them), "preset" (for gpt2, blocks in equal runs and the head ` +
				`back on rank 0; for vgg16-pipeline and vgg-mini-pipeline, a fixed cut for 1 to 6 ranks), "tagged" ` +
				`(placement has the rank of every layer, and a stage ends where it changes), or the layers per ` +
				`stage: [3, 4, 4, 4]`},
		{Key: "first_blocks", Example: "3", Range: setting.Between(0, math.MaxInt32), With: []string{"[model]"},
			Text: "blocks of the first stage, with partition = \"blocks\"", Unset: "as many as of others"},
		{Key: "last_blocks", Example: "1", Range: setting.Between(0, math.MaxInt32), With: []string{"[model]"},
			Text: "the same of the last stage", Unset: "as many as of others"},
		{Key: "placement", Example: "[0, 1, 2, 3]", Unset: "the schedule's own",
			Text: "the rank of every stage; several may share one. With partition = \"tagged\", of every layer"},
		{Key: "synchronous", Default: false, Text: "true: a barrier after every clock cycle, as in Pipe"},
		{Key: "whole_last", Default: false,
			Text: "true: the last stage takes all microbatches at once, " +
				"where only the blocks before a head are pipelined"},
		{Key: "detail", Default: StepDetail, OneOf: []string{StepDetail, LoopDetail}, With: []string{"[model]"},
			Text: `"loop": zeroing of gradients and the loss are tasks of their own, in the order of a training ` +
				`loop: zero, forward, loss, backward, sums, optimizer. "step": the loss is part of forwards, and ` +
				`zeroing takes no time`},
	}
}

// The values of Options.Detail: which steps of a training loop are tasks of their own.
const (
	StepDetail = "step"
	LoopDetail = "loop"
)

// The rules by which layers become stages.
const (
	BalancedPartition = "balanced"
	EqualPartition    = "equal"
	BlocksPartition   = "blocks" // equal numbers of blocks, the other layers at both ends
	PresetPartition   = "preset" // the network's own cut (see models.VGG16Split)
	TaggedPartition   = "tagged" // a stage is a run of layers that are placed on one rank
)

// PartitionBy says how layers become stages: by a rule, or by the number of
// layers of every stage.
type PartitionBy struct {
	Rule   string
	Layers []int
}

// UnmarshalTOML reads a rule or a list. "course" is an older name of "preset".
func (p *PartitionBy) UnmarshalTOML(value any) error {
	const use = `use "balanced" (by time), "equal" (in number), "blocks" (in number of blocks), ` +
		`"preset" (the network's own), "tagged" (as placement has them), or the layers per stage, such as [3, 4, 4, 3]`
	switch v := value.(type) {
	case string:
		if v == "course" {
			v = PresetPartition
		}
		switch v {
		case BalancedPartition, EqualPartition, BlocksPartition, PresetPartition, TaggedPartition:
		default:
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
