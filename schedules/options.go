package schedules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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
	FirstBlocks   int         `toml:"first_blocks"` // of the first stage, and of the last, with BlocksPartition
	LastBlocks    int         `toml:"last_blocks"`
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
		{Key: "partition", Example: `"balanced"`, With: []string{"[model]"}, Text: `of the layers: "balanced" (by time), "equal" (in number), "blocks" (of a transformer, as many in every stage; what comes before them is on the first and what comes after on the last, which have fewer where stages do not divide them), "preset" (for gpt2, blocks in equal runs and the head back on rank 0; for vgg16-pipeline and vgg-mini-pipeline, a fixed cut for 1 to 6 ranks), "tagged" (placement has the rank of every layer, and a stage ends where it changes), or the layers per stage: [3, 4, 4, 4]`, Unset: "balanced"},
		{Key: "first_blocks", Example: "3", Range: setting.Between(0, math.MaxInt32), With: []string{"[model]"}, Text: "blocks of the first stage, with partition = \"blocks\"", Unset: "as many as of others"},
		{Key: "last_blocks", Example: "1", Range: setting.Between(0, math.MaxInt32), With: []string{"[model]"}, Text: "the same of the last stage", Unset: "as many as of others"},
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

// The rules by which layers become stages.
const (
	BalancedPartition = "balanced"
	EqualPartition    = "equal"
	BlocksPartition   = "blocks" // in number of blocks, the rest at both ends
	PresetPartition   = "preset" // the cut that belongs to the network (see models.VGG16Split)
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
	const use = `use "balanced" (by time), "equal" (in number), "blocks" (in number of blocks), "preset" (the network's own), "tagged" (as placement has them), or the layers per stage, such as [3, 4, 4, 3]`
	switch v := value.(type) {
	case string:
		if v == "course" {
			v = PresetPartition
		}
		if !slices.Contains([]string{BalancedPartition, EqualPartition, BlocksPartition, PresetPartition, TaggedPartition}, v) {
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

// BucketBy is the limit of a gradient bucket: in bytes, or how many gradients. Without
// either one tensor is sent at a time.
type BucketBy struct{ Bytes, Gradients int64 }

// inGradients stands behind a number of them.
const inGradients = " gradients"

// UnmarshalTOML reads a size, a number of gradients, or "tensor".
func (b *BucketBy) UnmarshalTOML(value any) error {
	switch value.(type) {
	case []any, map[string]any:
		return errors.New(`must be one string: a size such as "25MB", "40000000 gradients", or "tensor"`)
	}
	text := fmt.Sprint(value)
	if text == "tensor" {
		*b = BucketBy{}
		return nil
	}
	if number, ok := strings.CutSuffix(text, inGradients); ok {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 || n > maxGradients {
			return fmt.Errorf(`%q: must be a whole number of gradients, such as "40000000 gradients"`, text)
		}
		*b = BucketBy{Gradients: n}
		return nil
	}
	size, err := units.ParseBytes(text)
	if err != nil {
		return fmt.Errorf(`%w (or "40000000 gradients", or "tensor": one collective per parameter tensor)`, err)
	}
	if size == 0 {
		return errors.New(`a bucket of 0 bytes; write "tensor" to send every parameter tensor by itself`)
	}
	*b = BucketBy{Bytes: int64(size)}
	return nil
}

// maxGradients keeps their bytes countable.
const maxGradients = 1 << 50

// TOML writes what UnmarshalTOML reads.
func (b BucketBy) TOML() any {
	switch {
	case b.Gradients > 0:
		return strconv.FormatInt(b.Gradients, 10) + inGradients
	case b.Bytes > 0:
		return units.Bytes(b.Bytes).String()
	}
	return "tensor"
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
