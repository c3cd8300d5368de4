package schedules

import (
	"errors"
	"fmt"
	"slices"

	"psim/internal/units"
	"psim/schedules/graph"
)

// Options is the [schedule] section.
type Options struct {
	Name          string      `toml:"name"`
	Stages        int         `toml:"stages"` // pipeline ranks
	Microbatches  int         `toml:"microbatches"`
	VirtualStages int         `toml:"virtual_stages"` // stages per rank
	Partition     PartitionBy `toml:"partition"`      // of the network's layers
	Placement     []int32     `toml:"placement"`      // rank of every stage
	Synchronous   bool        `toml:"synchronous"`    // a barrier between clock cycles
	Group         int         `toml:"group"`          // microbatches that pass through a rank's chunks together
	// WholeLast: the last stage takes all microbatches at once (see Pipeline).
	WholeLast bool `toml:"whole_last"`
	// File is a schedule in PyTorch's CSV notation, in place of a name.
	File string `toml:"file"`
}

// Batch is the [batch] section: samples per step over all replicas, and per
// microbatch of one replica. 0 is not given.
type Batch struct {
	Global int64 `toml:"global"`
	Micro  int64 `toml:"micro"`
}

// Parallel is the [parallel] section.
type Parallel struct {
	Data     int  `toml:"data"`     // replicas
	Tensor   int  `toml:"tensor"`   // devices of a tensor-parallel group, which is one rank
	Sequence bool `toml:"sequence"` // sequence parallelism
	// TensorOverlap lets what a tensor-parallel group exchanges in the backward
	// run beside its products.
	TensorOverlap bool `toml:"tensor_overlap"`
	// ScatterGather: a group sends what goes to the next stage in parts.
	ScatterGather bool     `toml:"scatter_gather"`
	Zero          int      `toml:"zero"` // ZeRO stage
	Bucket        BucketBy `toml:"bucket"`
	Overlap       bool     `toml:"overlap"` // gradients travel beside the backward
	// Collectives is the library whose collectives sum gradients: "nccl", or
	// "gloo", which has no reduce-scatter. Empty means nccl.
	Collectives string `toml:"collectives"`
}

// CollectiveOptions is the [collective] section: a ring by itself.
type CollectiveOptions struct {
	Bytes      units.Bytes `toml:"bytes"`
	Ranks      int         `toml:"ranks"`
	Convention string      `toml:"convention"`
}

// PartitionBy says how layers become stages: "balanced", "equal", "course",
// or the number of layers of every stage.
type PartitionBy struct {
	Rule   string
	Layers []int
}

// UnmarshalTOML reads a rule or a list.
func (p *PartitionBy) UnmarshalTOML(value any) error {
	const legal = `"balanced" (by cost), "equal" (layers), "course" (the courses' own), or the layers per stage, such as [3, 4, 4, 3]`
	switch v := value.(type) {
	case string:
		if !slices.Contains([]string{"balanced", "equal", "course"}, v) {
			return fmt.Errorf("%q is not a partition; legal are %s", v, legal)
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
	return errors.New("a partition is " + legal)
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
		return repeat(micro, max(1, m)), nil
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
	samples := repeat(micro, count)
	samples[count-1] = perReplica - micro*(count-1)
	return samples, nil
}

func repeat(value, count int64) []int64 {
	s := make([]int64, count)
	for i := range s {
		s[i] = value
	}
	return s
}

// maxTensor is more devices than any model has heads.
const maxTensor = 1 << 16

// Validate checks what no other section can change.
func (p Parallel) Validate() error {
	switch {
	case p.Data < 1:
		return fmt.Errorf("data = %d: there must be at least 1 replica", p.Data)
	case p.Tensor < 1:
		return fmt.Errorf("tensor = %d: a tensor-parallel group has at least 1 device", p.Tensor)
	case p.Tensor > maxTensor:
		return fmt.Errorf("tensor = %d: a tensor-parallel group has at most %d devices", p.Tensor, maxTensor)
	case p.Sequence && p.Tensor == 1:
		return errors.New("sequence = true: divides the sequence among a tensor-parallel group, and tensor = 1; set tensor above 1, or sequence = false")
	case p.Zero < 0 || p.Zero > 3:
		return fmt.Errorf("zero = %d: the ZeRO stages are 0 (DDP), 1 (optimizer), 2 (and gradients) and 3 (and parameters)", p.Zero)
	case p.Collectives != "" && p.Collectives != "nccl" && p.Collectives != "gloo":
		return fmt.Errorf("collectives = %q: legal are nccl and gloo (which all-reduces where nccl reduce-scatters)", p.Collectives)
	}
	return nil
}
