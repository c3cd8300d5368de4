package parallel

import (
	"errors"
	"fmt"
	"slices"

	"psim/internal/setting"
	"psim/schedules/graph"
)

// Batch is the [batch] section: samples per step over all replicas, and per microbatch of one
// replica. 0 means not given.
type Batch struct {
	Global int64     `toml:"global"`
	Micro  int64     `toml:"micro"`
	Shards []float64 `toml:"shards"` // shares of Global, by replica; nil: equal shares
}

// Settings describes [batch].
func (Batch) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "global", Example: "32", Shown: true, Range: setting.Count(),
			Text: "samples per step over all replicas", Unset: "micro × microbatches × replicas",
		},
		{
			Key: "micro", Example: "4", Range: setting.Count(),
			Text: "samples per microbatch of one replica", Unset: "a replica's samples in schedule.microbatches parts",
		},
		{
			Key: "shards", Example: "[0.5, 0.25, 0.25]", With: []string{"[model]"},
			Text: "share of global that each replica trains on: one number per replica, adding up to 1; the slowest " +
				"replica then decides the step. Every share is cut into schedule.microbatches, whose gradients are " +
				"weighted by their samples",
			Unset: "equal shares",
		},
	}
}

// Samples cuts one replica's share of a batch into microbatches and returns
// the size of each; the last may be smaller. microbatches is 0 if it is not given.
func (b Batch) Samples(replicas, microbatches int) ([]int64, error) {
	d, m := int64(replicas), int64(microbatches)
	if b.Global > 0 && b.Global%d != 0 {
		return nil, fmt.Errorf("global = %d: cannot be shared equally by parallel.data = %d replicas", b.Global, d)
	}
	perReplica, micro := b.Global/d, b.Micro
	switch {
	case b.Global == 0 && micro == 0:
		return nil, errors.New("global is missing: " +
			"give the samples per step (batch.global), or per microbatch (batch.micro)")
	case b.Global == 0 && m > graph.MaxTasks:
		return nil, fmt.Errorf("micro = %d: schedule.microbatches = %d is more than the %d that are supported",
			micro, m, graph.MaxTasks)
	case b.Global == 0:
		return slices.Repeat([]int64{micro}, int(max(1, m))), nil
	case micro == 0:
		micro = (perReplica + max(1, m) - 1) / max(1, m)
	}
	if micro > perReplica {
		return nil, fmt.Errorf("micro = %d: larger than the %d samples that a replica gets per step (batch.global / "+
			"parallel.data)", micro, perReplica)
	}
	count := (perReplica + micro - 1) / micro
	if m > 0 && count != m {
		if b.Micro == 0 {
			return nil, fmt.Errorf("global = %d: a replica's %d samples cannot be cut into schedule.microbatches = "+
				"%d equal microbatches with only the last one smaller; schedule.microbatches = %d would work",
				b.Global, perReplica, m, count)
		}
		return nil, fmt.Errorf("micro = %d: %d samples per replica (batch.global / parallel.data) make %d "+
			"microbatches of that size, but schedule.microbatches = %d; "+
			"remove one of the three", micro, perReplica, count, m)
	}
	if count > graph.MaxTasks {
		return nil, fmt.Errorf("global = %d: makes %d microbatches; at most %d are supported", b.Global, count,
			graph.MaxTasks)
	}
	samples := slices.Repeat([]int64{micro}, int(count))
	samples[count-1] = perReplica - micro*(count-1)
	return samples, nil
}
