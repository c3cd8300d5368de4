package psim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim"
	"psim/configs"
	"psim/results"
	"psim/schedules"
)

// What a rank's memory holds at its peak adds up to the peak, whatever ZeRO's stage,
// recomputation and precision: for every schedule that a network can have, and for
// settings drawn at random.
func TestMemoryAddsUp(t *testing.T) {
	for _, name := range schedules.Names() {
		if name == "auto" || name == "auto-v" {
			continue // of given times alone
		}
		for zero := range 4 {
			if !shards(name, zero) {
				continue
			}
			for _, recompute := range []string{"none", "selective", "full"} {
				sets := append(training(name, zero, recompute), "model.tied=false", "model.layers=8")
				if recompute == "none" {
					sets = append(sets, process...)
				}
				c, err := psim.Load("gpipe", sets...)
				require.NoError(t, err)
				p, err := psim.Predict(context.Background(), c)
				require.NoError(t, err, "%v", sets)
				requireSums(t, p)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		c, err := psim.Load("gpipe", drawTraining(t)...)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		if err != nil {
			t.Skip(err) // a schedule that this shape cannot have
		}
		requireSums(t, p)
	})
}

// process is what a process may hold beside its tensors.
var process = []string{
	"memory.context=1MB", "memory.buffers=1MiB", "memory.allocator=0.1", "memory.gradient_copies=true", "memory.keep_outputs=true", "memory.fp32_shards=true",
}

// shards reports whether a schedule can have a stage of ZeRO.
func shards(name string, zero int) bool {
	switch name {
	case "ddp":
		return true
	case "fsdp":
		return zero == 3
	case "pipedream", "dualpipe", "chimera": // of one replica, or with every stage twice
		return zero == 0
	}
	return zero < 3
}

// training lists the settings of a small step of a schedule, with two replicas where
// it may have them.
func training(name string, zero int, recompute string) []string {
	stages, virtual, data := 2, 1, 2
	switch name {
	case "ddp", "fsdp":
		stages = 1
	case "pipedream":
		data = 1
	case "interleaved-1f1b", "looped-bfs", "interleaved-zero-bubble", "zbv", "v-half", "v-min", "dualpipev", "hanayo":
		virtual = 2
	}
	return []string{
		"schedule.name=" + name, fmt.Sprint("schedule.stages=", stages), fmt.Sprint("schedule.virtual_stages=", virtual),
		"schedule.microbatches=4", fmt.Sprint("batch.global=", 8*data), fmt.Sprint("parallel.data=", data),
		fmt.Sprint("parallel.zero=", zero), "train.recompute=" + recompute,
		"model.hidden=64", "model.heads=4", "model.vocab=512", "model.sequence_length=64",
	}
}

// requireSums wants the parts of every rank's memory to be its peak, and none of them
// less than nothing. The optimizer's part is what lasts, and what comes goes.
func requireSums(t require.TestingT, p *psim.Prediction) {
	left := make([]int64, len(p.Result.Ranks))
	for _, changes := range p.Trace.ChangesByRank() {
		for e := range changes {
			left[e.Rank] += e.Bytes
		}
	}
	if !p.Experiment.Graph.Stashing {
		require.Equal(t, make([]int64, len(left)), left)
	}
	beside := p.Experiment.Staged.Process.Context + p.Experiment.Staged.Process.Buffers
	for _, r := range p.Result.Ranks {
		m := r.Memory
		require.Equal(t, r.PeakMemory, m.Parameters+m.Gradients+m.Optimizer+m.Activations+m.Buffers+m.Context)
		for _, part := range []int64{m.Parameters, m.Gradients, m.Optimizer, m.Activations, m.Buffers, m.Context} {
			require.GreaterOrEqual(t, part, int64(0), "%+v", *m)
		}
		require.Positive(t, m.Parameters)
		require.LessOrEqual(t, m.Optimizer, r.PersistentMemory)
		if p.Config.Parallel.Zero < 2 && !p.Experiment.Graph.Layered && !p.Experiment.Graph.Stashing {
			require.Equal(t, r.PersistentMemory-beside, m.Parameters+m.Gradients+m.Optimizer)
		}
	}
}

// Under ZeRO the peak holds more parameters or gradients than last, and buffers where
// it is within a collective.
func TestMemoryUnderZeRO(t *testing.T) {
	peak := func(sets ...string) (results.MemoryBytes, int64) {
		c, err := psim.Load("gpipe", append(sets, "schedule.name=ddp", "schedule.stages=1", "parallel.data=4")...)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		require.NoError(t, err)
		return *p.Result.Ranks[0].Memory, p.Result.Parameters
	}
	m, n := peak("parallel.zero=3", "train.recompute=full")
	require.Greater(t, m.Parameters, 2*n/4)
	require.Greater(t, m.Gradients, 2*n/4)
	require.InDelta(t, 12*n/4, m.Optimizer, 100)
	m, n = peak("parallel.zero=2", "schedule.microbatches=1", "batch.global=4", "model.sequence_length=16")
	require.EqualValues(t, 2*n, m.Parameters)
	require.Positive(t, m.Buffers)
}

// drawTraining draws settings over the example gpipe.
func drawTraining(t *rapid.T) []string {
	zero := rapid.IntRange(0, 3).Draw(t, "zero")
	name, stages := "ddp", 1
	if zero < 3 {
		if name = rapid.SampledFrom(schedules.Names()).Draw(t, "schedule"); name != "ddp" {
			stages = rapid.SampledFrom([]int{2, 4}).Draw(t, "stages")
		}
	}
	precision := rapid.SampledFrom([]string{"fp32", "fp16", "bf16"}).Draw(t, "precision")
	beside := slices.Clone(process[:rapid.IntRange(0, len(process)).Draw(t, "process")])
	if rapid.Bool().Draw(t, "partitioned") {
		beside = append(beside, "memory.keep_outputs=partitioned")
	}
	data := rapid.IntRange(1, 3).Draw(t, "data")
	return append([]string{
		fmt.Sprint("schedule.name=", name), fmt.Sprint("schedule.stages=", stages), "schedule.microbatches=4",
		fmt.Sprint("batch.global=", 8*data), fmt.Sprint("parallel.data=", data), fmt.Sprint("parallel.zero=", zero),
		"model.layers=8", "model.hidden=64", "model.heads=4", "model.vocab=512", "model.sequence_length=64",
		fmt.Sprint("parallel.tensor=", rapid.SampledFrom([]int{1, 2}).Draw(t, "tensor")),
		fmt.Sprint("parallel.overlap=", rapid.Bool().Draw(t, "overlap")),
		fmt.Sprint("parallel.collectives=", rapid.SampledFrom([]string{"nccl", "gloo"}).Draw(t, "collectives")),
		fmt.Sprint("parallel.bucket=", rapid.SampledFrom([]string{"tensor", "10kB", "25MB"}).Draw(t, "bucket")),
		"train.precision=" + precision,
		"train.recompute=" + rapid.SampledFrom([]string{"none", "selective", "full"}).Draw(t, "recompute"),
		"train.optimizer=" + rapid.SampledFrom([]string{"sgd", "sgd-momentum", "adamw"}).Draw(t, "optimizer"),
		"schedule.virtual_stages=" + map[bool]string{true: "2", false: "1"}[name == "interleaved-1f1b" || name == "looped-bfs" || name == "interleaved-zero-bubble" || name == "hanayo"],
	}, beside...)
}

// Without a margin, a peak above 0.87 of the memory of a GPU is close: a word and a
// warning, and nothing that is refused. Cores of a CPU have no such share.
func TestVerdictWithoutMargin(t *testing.T) {
	peak := predicted(t, "gpipe").Result.PeakMemory()
	least := int64(float64(peak)/(1-configs.UsualMargin)) + 1 // with which it fits
	verdict := func(memory int64, sets ...string) (string, bool) {
		sets = append([]string{fmt.Sprintf("machine.compute.memory=%dB", memory)}, sets...)
		c, err := psim.Load("gpipe", sets...)
		require.NoError(t, err)
		requireRoundTrip(t, c)
		r := predicted(t, "gpipe", sets...).Result
		require.Equal(t, r.MemoryVerdict != results.DoesNotFit, r.FitsMemory)
		require.Equal(t, r.Fits(), r.WouldFit == nil)
		return r.MemoryVerdict, r.Fits()
	}
	for _, test := range []struct {
		memory  int64
		set     string
		verdict string
		fits    bool
	}{
		{least, "", results.Fits, true},
		{least - 2, "", results.Close, true},
		{peak, "", results.Close, true},
		{peak - 1, "", results.DoesNotFit, false},
		{peak, "machine.memory_margin=0", results.Close, true},
		{least, "machine.memory_margin=0.13", results.Fits, true},
		{least - 2, "machine.memory_margin=0.13", results.Close, false},
		{least, "machine.memory_margin=0.2", results.Close, false},
		{least - 2, "machine.memory_margin=0.1", results.Fits, true},
		{peak, "machine.device=tpu-v4", results.Close, true},
	} {
		var sets []string
		if test.set != "" {
			sets = []string{test.set}
		}
		word, fits := verdict(test.memory, sets...)
		require.Equal(t, test.verdict, word, test)
		require.Equal(t, test.fits, fits, test)
	}
	cores := predicted(t, "gpipe", "machine.device=cpu-core", "train.precision=fp32").Result.PeakMemory()
	word, fits := verdict(cores, "machine.device=cpu-core", "train.precision=fp32")
	require.Equal(t, results.Fits, word)
	require.True(t, fits)
}

// Of a training that is known to have run, psim says that its own estimate of the memory is too high,
// not that the training does not fit; the plan's comment says what is not modelled.
func TestRanThough(t *testing.T) {
	const ran = "ran with these settings, so it did fit"
	ranThough := func(name string, sets ...string) bool {
		c, err := psim.Load(name, sets...)
		require.NoError(t, err)
		p, err := psim.Estimate(context.Background(), c)
		require.NoError(t, err)
		warned := strings.Contains(strings.Join(p.Result.Warnings, "\n"), ran)
		require.False(t, warned && p.Result.FitsMemory)
		text, err := configs.Example(name)
		require.NoError(t, err)
		require.True(t, !warned || strings.Contains(text, "# The training ran with these settings."), name)
		return warned
	}
	for _, name := range configs.Plans() {
		require.Equal(t, name == "plans/deepseek-v3" || name == "plans/llama3-405b", ranThough(name), name)
	}
	require.False(t, ranThough("plans/llama3-405b", "batch.global=1024"), "another training")
	require.False(t, ranThough("gpipe", "machine.compute.memory=1GB"), "an example")
}
