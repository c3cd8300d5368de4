package configs_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"psim/configs"
	"psim/schedules/graph"
	"psim/sim"
)

// affordable says that an experiment is small enough to be built many times a
// second. Larger ones are legal up to schedules.MaxTasks.
func affordable(c *configs.Config) bool {
	const most = 1 << 12
	s, layers := c.Schedule, max(1, c.Model.Layers)
	tasks := max(1, s.Stages) * max(1, s.VirtualStages) * max(1, s.Microbatches, c.Collective.Ranks) * c.Parallel.Data
	if c.Batch.Micro > 0 {
		tasks *= int(max(1, c.Batch.Global/c.Batch.Micro))
	}
	return s.Stages <= most && s.VirtualStages <= most && s.Microbatches <= most && c.Parallel.Data <= most && c.Collective.Ranks <= 64 &&
		tasks > 0 && tasks <= most && layers <= 256
}

// check builds and simulates what could be read, and wants no panic, no wrong
// graph and no time that runs backwards.
func check(t *testing.T, c *configs.Config) {
	if !affordable(c) {
		return
	}
	experiment, err := c.Build()
	if err != nil {
		if err.Error() == "" {
			t.Error("an error without a message")
		}
		return
	}
	if err := experiment.Graph.Validate(); err != nil {
		t.Fatal(err)
	}
	if experiment.Samples < 0 || experiment.Tokens < 0 {
		t.Fatalf("%d samples, %d tokens", experiment.Samples, experiment.Tokens)
	}
	var longest time.Duration
	for i := range int32(experiment.Graph.Len()) {
		cost := experiment.Costs.Task(new(experiment.Graph.Task(i)))
		if cost.Busy < 0 || cost.Delay < 0 || experiment.Graph.Task(i).Bytes < 0 {
			t.Fatalf("%s costs %+v", experiment.Graph.Describe(int32(i)), cost)
		}
		longest = max(longest, cost.Busy, cost.Delay)
	}
	if longest > time.Duration(1<<62)/time.Duration(2*experiment.Graph.Len()+1) {
		return // years, whose sum may not fit
	}
	trace, err := sim.Run(experiment.Graph, experiment.Costs)
	if err != nil {
		t.Fatal(err)
	}
	level := make([]int64, experiment.Graph.Ranks())
	for _, changes := range trace.ChangesByRank() {
		for e := range changes {
			level[e.Rank] += e.Bytes
		}
	}
	for r := range level {
		if experiment.Staged != nil && level[r] != 0 {
			t.Fatalf("rank %d ends with %d bytes more than it began with", r, level[r])
		}
	}
	if s := graph.Summarize(trace); s.StepTime < 0 {
		t.Fatal(s.StepTime)
	}
}

// addSeeds adds the examples and the wrong configurations.
func addSeeds(f *testing.F, add func(text string)) {
	for _, pattern := range []string{"*.toml", "testdata/errors/*.toml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal(pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			add(string(data))
		}
	}
	add(small)
	add(networkKeys)
	add(ring)
}

func FuzzParse(f *testing.F) {
	addSeeds(f, func(text string) { f.Add([]byte(text)) })
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := configs.Parse("fuzz.toml", data); err == nil {
			check(t, c)
		}
	})
}

func FuzzSet(f *testing.F) {
	for _, set := range []string{
		"schedule.name=1f1b", "schedule.stages=3", "schedule.placement=[0,1,0]", "times.forward=[\"1s\",\"2s\"]",
		"schedule.partition=course", "schedule.name=looped-bfs", "schedule.virtual_stages=2", "schedule.group=2", "schedule.file=x.csv", "schedule.whole_last=true", "parallel.data=2", "parallel.zero=1", "parallel.bucket=tensor", "parallel.gather=tensor", "parallel.simplified=true", "parallel.broadcast=true", "batch.micro=3", "batch.shards=[1.0]",
		"machine.link.bandwidth=1B/s", "machine.link={bandwidth=\"1GB/s\"}", "machine.devices_per_node=1",
		"machine.network=ib-hdr", "machine.compute.flops=1FLOP/s", "model.layers=2", "model.preset=mlp", "train.recompute=full",
		"collective.ranks=5", "collective.bytes=3B", "memory.activation=1GB", "a.b=\"\\u0000", "a.b='", "x=1",
	} {
		for i := range 3 {
			f.Add(set, uint8(i))
		}
	}
	texts := []string{small, networkKeys, ring}
	f.Fuzz(func(t *testing.T, set string, which uint8) {
		c, err := configs.Parse("fuzz.toml", []byte(texts[int(which)%len(texts)]), set)
		if err == nil {
			check(t, c)
		}
	})
}
