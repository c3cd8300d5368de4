package configs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/internal/golden"
	"psim/schedules/graph"
)

func example(t *testing.T, name string, sets ...string) (*configs.Experiment, graph.Summary) {
	t.Helper()
	c, err := configs.Load(name, sets...)
	require.NoError(t, err)
	require.Equal(t, name, c.Name())
	return run(t, c)
}

// What is predicted for every example, against silent change. None of them
// may need more memory than its devices have.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("*.toml")
	require.NoError(t, err)
	require.Len(t, configs.Examples(), len(files))
	var b strings.Builder
	for _, name := range configs.Examples() {
		experiment, s := example(t, name)
		require.Empty(t, experiment.Warnings)
		var peak, sent int64
		for r, rank := range s.Ranks {
			peak, sent = max(peak, rank.PeakMemory), sent+rank.SentBytes
			if experiment.Capacity != nil {
				require.LessOrEqual(t, rank.PeakMemory, experiment.Capacity[r], name)
			}
		}
		fmt.Fprintf(&b, "%-26s %6d tasks, step %v, makespan %v, bubble %.6f, peak %d B, sent %d B, %d samples, %d tokens\n",
			name, experiment.Graph.Len(), s.StepTime, s.Makespan, s.Bubble.Makespan, peak, sent, experiment.Samples, experiment.Tokens)
	}
	golden.Equal(t, "examples.golden", b.String())
}

// An example on disk and the embedded one are the same.
func TestExamplesFromDisk(t *testing.T) {
	for _, name := range configs.Examples() {
		c, err := configs.Load(filepath.Join(".", name+".toml"))
		require.NoError(t, err)
		require.Equal(t, name, c.Name())
		_, embedded := example(t, name)
		_, disk := run(t, c)
		require.Equal(t, embedded, disk)
		summary := configs.ExampleSummary(name)
		data, err := os.ReadFile(name + ".toml")
		require.NoError(t, err)
		require.Greater(t, len(summary), 20, name)
		require.True(t, strings.HasPrefix(string(data), "# "+summary[:20]), name)
		require.NotContains(t, summary, "#")
	}
}

// course-timeline.toml says 43.71 s, and 40.88 s with 1F1B.
func TestMeasuredTimelineClaims(t *testing.T) {
	_, s := example(t, "course-timeline")
	require.Equal(t, 43710*time.Millisecond, s.StepTime)
	_, s = example(t, "course-timeline", "schedule.name=1f1b")
	require.Equal(t, 40880*time.Millisecond, s.StepTime)
}

// zero-bubble.toml says what the authors' table 5 has.
func TestZeroBubbleClaims(t *testing.T) {
	for name, want := range map[string]string{"zb-h2": "0.0698", "zb-h1": "0.1323", "1f1b": "0.2347"} {
		_, s := example(t, "zero-bubble", "schedule.name="+name)
		require.Equal(t, want, fmt.Sprintf("%.4f", s.Bubble.Span), name)
	}
}

// auto.toml has the bubble of table 5 for its times, 0.0039 of the longest span.
func TestAutoClaims(t *testing.T) {
	experiment, s := example(t, "auto")
	require.InDelta(t, 0.0039, s.Bubble.Span, 0.00005)
	require.Less(t, float64(experiment.Search.Span), 1.004*float64(experiment.Search.LowerBound))
}

// ring-allreduce.toml says 14 steps and 2.8 s.
func TestRingAllReduceClaims(t *testing.T) {
	experiment, s := example(t, "ring-allreduce")
	require.Equal(t, 2800*time.Millisecond, s.StepTime)
	require.Equal(t, 14*8, s.Messages) // every rank sends once a step
	for _, r := range s.Ranks {
		require.EqualValues(t, 35e9, r.SentBytes)
	}
	require.Nil(t, experiment.Staged)
	for _, convention := range []string{"gloo", "baidu"} {
		_, other := example(t, "ring-allreduce", "collective.convention="+convention)
		require.Equal(t, s.StepTime, other.StepTime)
	}
}

// 1f1b.toml says much the same bubble as gpipe.toml, and less memory.
func TestOneForwardOneBackwardClaims(t *testing.T) {
	_, gpipe := example(t, "gpipe", "model.attention=unfused")
	_, s := example(t, "1f1b", "model.attention=unfused")
	require.InDelta(t, gpipe.Bubble.Makespan, s.Bubble.Makespan, 0.01, "to a point: its stages are not quite equal")
	for r := range s.Ranks {
		require.Equal(t, min(8, 4-r), s.Ranks[r].PeakInFlight)
		require.Equal(t, 8, gpipe.Ranks[r].PeakInFlight)
		require.Less(t, s.Ranks[r].PeakMemory, gpipe.Ranks[r].PeakMemory)
	}
}

// megatron-175b.toml is on 64 devices. Its first rank holds the activations of 31
// chunks of 4 layers: of L layers and, with v chunks, (p−1)/(pv) more, 12.35 GiB in
// all (Korthikanti et al. 2022, section 4.2.3 and figure 1). That figure has
// neither the embedding nor what a backward recomputes.
func TestMegatronClaims(t *testing.T) {
	experiment, s := example(t, "megatron-175b")
	require.Len(t, s.Ranks, 8)
	require.Equal(t, 8, experiment.Machine.Nodes(8))
	require.Equal(t, 31, s.Ranks[0].PeakInFlight)
	const gib = 1 << 30
	activations := float64(s.Ranks[0].PeakMemory-s.Ranks[0].PersistentMemory) / gib
	require.Greater(t, activations, 12.35)
	require.InEpsilon(t, 12.35, activations, 0.03)
	for _, r := range s.Ranks {
		require.Equal(t, s.StepTime, r.Compute+r.ExposedCommunication+r.Optimizer+r.Idle)
		require.Greater(t, r.Communication, r.ExposedCommunication) // messages go beside
	}
	// On one card per node, sending an eighth pays.
	_, whole := example(t, "megatron-175b", "machine.nics_per_node=1", "parallel.sequence=false", "parallel.scatter_gather=false")
	_, parts := example(t, "megatron-175b", "machine.nics_per_node=1", "parallel.sequence=false")
	require.Less(t, parts.StepTime, whole.StepTime)
	_, beside := example(t, "megatron-175b", "parallel.tensor_overlap=true")
	require.Less(t, beside.StepTime, s.StepTime)
	require.Less(t, beside.Ranks[0].ExposedCommunication, s.Ranks[0].ExposedCommunication)
}

// model-parallel.toml says that one of four equal stages is at work at a time.
func TestModelParallelClaims(t *testing.T) {
	_, s := example(t, "model-parallel")
	require.InDelta(t, 0.75, s.Bubble.Makespan, 1e-12)
	require.Equal(t, 4*2*30*time.Millisecond, s.StepTime)
	require.EqualValues(t, 2e9, s.Ranks[0].PeakMemory)
}

// ddp.toml says that gradients travel beside the backward, in buckets of 25 MB
// but for the first and last. Without overlap the step is longer.
func TestDDPClaims(t *testing.T) {
	experiment, s := example(t, "ddp")
	var buckets []int64
	for _, task := range experiment.Graph.Tasks() {
		if task.Kind == graph.AllReduce && task.Rank == 0 {
			buckets = append(buckets, task.Bytes)
		}
	}
	for _, b := range buckets[1 : len(buckets)-1] {
		require.GreaterOrEqual(t, b, int64(25_000_000))
	}
	require.Less(t, s.Ranks[0].ExposedCommunication, s.Ranks[0].Communication/2)
	_, after := example(t, "ddp", "parallel.overlap=false")
	require.Greater(t, after.StepTime, s.StepTime)
}

// fsdp.toml says that layers are gathered one ahead of their use and gradients
// scattered beside the backward. It sends half as much again as whole copies,
// keeps a quarter, and Gloo, which has no reduce-scatter, sends twice as much.
func TestFSDPClaims(t *testing.T) {
	experiment, s := example(t, "fsdp")
	counts := map[graph.Kind]int{}
	for _, task := range experiment.Graph.Tasks() {
		counts[task.Kind]++
	}
	layers := 8 // of 14, those that have parameters
	require.Equal(t, 4*2*layers, counts[graph.AllGather])
	require.Equal(t, 4*layers, counts[graph.ReduceScatter])
	_, after := example(t, "fsdp", "parallel.overlap=false")
	require.Less(t, s.Ranks[0].ExposedCommunication, after.Ranks[0].ExposedCommunication)
	require.Greater(t, after.StepTime, s.StepTime)

	_, copies := example(t, "fsdp", "parallel.zero=0")
	require.InEpsilon(t, 1.5, float64(s.Ranks[0].SentBytes)/float64(copies.Ranks[0].SentBytes), 1e-6)
	require.InEpsilon(t, 4, float64(copies.Ranks[0].PersistentMemory)/float64(s.Ranks[0].PersistentMemory), 1e-6)
	_, gloo := example(t, "fsdp", "parallel.collectives=gloo")
	require.InEpsilon(t, 2, float64(gloo.Ranks[0].SentBytes)/float64(copies.Ranks[0].SentBytes), 1e-6)

	experiment, alone := example(t, "fsdp", "parallel.data=1", "batch.global=128")
	require.Equal(t, 2*14+1, experiment.Graph.Len(), "one replica shards nothing")
	require.Zero(t, alone.Ranks[0].SentBytes)
}

// GPT-2's head is tied to its embedding, whose unit it gathers again.
func TestFSDPOfGPT2(t *testing.T) {
	_, copies := example(t, "ddp")
	_, s := example(t, "ddp", "parallel.zero=3")
	require.Less(t, s.Ranks[0].PeakMemory, copies.Ranks[0].PeakMemory)
	_, untied := example(t, "ddp", "parallel.zero=3", "model.tied=false")
	require.Greater(t, untied.Ranks[0].PersistentMemory, s.Ranks[0].PersistentMemory)
}

// Clock cycles cost 1F1B time and GPipe of equal stages none.
func TestSynchronous(t *testing.T) {
	const set = "schedule.synchronous=true"
	for name, slower := range map[string]bool{"schedule.name=1f1b": true, "schedule.name=gpipe": false} {
		c := parse(t, small, name, "schedule.stages=3", "schedule.microbatches=6")
		_, free := run(t, c)
		c = parse(t, small, name, "schedule.stages=3", "schedule.microbatches=6", set)
		_, clocked := run(t, c)
		require.Equal(t, slower, clocked.StepTime > free.StepTime, name)
		require.Equal(t, free.Ranks[0].Compute, clocked.Ranks[0].Compute)
	}
	// A free run waits for 2(P−1) messages, a clocked one after every cycle but
	// the last forward's and the last of all.
	_, messages := run(t, parse(t, small, "schedule.stages=3", "schedule.microbatches=6", "times.p2p=1ms", set))
	require.Equal(t, ((6+3-1)*(10+20)+2*(6+3-2))*time.Millisecond, messages.StepTime)

	_, free := example(t, "gpipe")
	_, clocked := example(t, "gpipe", set)
	require.Greater(t, clocked.StepTime, free.StepTime, "the stages of a network are never equal")
}

// The data-parallel homework has one all-reduce per parameter tensor.
func TestDataParallelHomeworkClaims(t *testing.T) {
	experiment, s := example(t, "gpt2-4090d-data-parallel")
	count, bytes := 0, int64(0)
	for _, task := range experiment.Graph.Tasks() {
		if task.Kind == graph.AllReduce && task.Rank == 0 {
			count, bytes = count+1, bytes+task.Bytes
		}
	}
	require.Equal(t, 148, count)
	require.EqualValues(t, 4*124_439_808, bytes)
	require.Equal(t, s.Ranks[0].Communication, s.Ranks[0].ExposedCommunication)
}

// An experiment is a file and settings over it.
func ExampleLoad() {
	c, err := configs.Load("course-timeline", "schedule.name=1f1b")
	if err != nil {
		panic(err)
	}
	experiment, err := c.Build()
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %s over %d ranks, %d tasks\n", c.Name(), experiment.Graph.Name, experiment.Graph.Ranks(), experiment.Graph.Len())
	_, err = configs.Load("course-timeline", "times.forward=1.58")
	fmt.Println(err)
	// Output:
	// course-timeline: 1f1b over 3 ranks, 20 tasks
	// times.forward=1.58: times.forward: "1.58" has no unit; write for example "1.58ms"
}

// One thread that launches small kernels on both devices makes a pipeline slower
// than no pipeline; with a thread each, or where launching costs nothing, it is
// faster.
func TestLaunchBound(t *testing.T) {
	step := func(sets ...string) time.Duration {
		_, s := example(t, "launch-bound", sets...)
		return s.StepTime
	}
	none := []string{"schedule.name=model-parallel", "schedule.microbatches=1"}
	require.Greater(t, step(), step(none...))
	require.Less(t, step("machine.host.threads=rank"), step(append(none, "machine.host.threads=rank")...))
	require.Less(t, step("machine.host.operation=0us"), step("machine.host.threads=rank"))
}
