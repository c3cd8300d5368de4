package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/configs/parallel"
	"psim/schedules/graph"
)

// The defaults of the configuration contract.
func TestDefaults(t *testing.T) {
	c := parse(t, "[schedule]\nname = \"ddp\"\n[model]\npreset = \"mlp\"\n[batch]\nglobal = 8\n[machine]\ndevice = \"t4\"\n")
	require.Equal(t, 1, c.Schedule.VirtualStages)
	require.Equal(t, parallel.Options{Data: 1, Tensor: 1, Context: 1, ContextMethod: "ring", Expert: 1, Dispatcher: "alltoall", Dispatch: "activations", TensorOverlap: true, TensorGather: "input", ScatterGather: true, Gather: "unit", Unit: "block", GatherUpdated: "bucket", ReduceScatter: true, Bucket: parallel.BucketBy{Bytes: 25_000_000}, Overlap: true, Collectives: "nccl", Order: "tp-pp-dp"}, c.Parallel)
	require.Equal(t, "fp32", c.Train.Precision)
	require.Equal(t, "adamw", c.Train.Optimizer)
	require.Equal(t, "none", c.Train.Recompute)
	require.Zero(t, c.Times.PointToPoint)
	require.Zero(t, c.Times.Optimizer)
	require.Zero(t, c.Memory.Limit)

	experiment, _ := run(t, c)
	require.Equal(t, graph.Shape{Ranks: 1, Virtual: 1, Microbatches: 1, Replicas: 1}, experiment.Graph.Shape)
	require.EqualValues(t, 8, experiment.Samples)
	require.Zero(t, experiment.Tokens) // not a language model
	require.Equal(t, "pcie3", experiment.Machine.Link.Name)
	require.Zero(t, experiment.Machine.Network.Bandwidth)
	require.Equal(t, []int64{15360 << 20}, experiment.Capacity)
	require.EqualValues(t, 8*(1024*1024+1024), experiment.Staged.Stages[0].Parameters)
}

// Each default can be said as well, without a difference.
func TestDefaultsCanBeGiven(t *testing.T) {
	_, want := run(t, parse(t, networkKeys))
	for _, set := range []string{
		"schedule.virtual_stages=1", "schedule.partition=balanced", "parallel.data=1", "parallel.tensor=1",
		"parallel.sequence=false", "parallel.zero=0", "parallel.bucket=25MB", "parallel.overlap=true",
		"parallel.collectives=nccl", "schedule.synchronous=false",
		"train.precision=fp32", "train.optimizer=adamw", "train.recompute=none", "machine.nics_per_node=1",
		"model.kv_heads=4", "model.norm=layer", "model.activation=gelu", "model.gated=false",
		"model.position_embedding=learned", "model.linear_bias=true", "model.attention_bias=true", "model.mlp_bias=true",
	} {
		c, err := configs.Parse("x.toml", []byte(networkKeys), set)
		require.NoError(t, err, set)
		_, got := run(t, c)
		require.Equal(t, want, got, set)
	}
	_, want = run(t, parse(t, small))
	_, got := run(t, parse(t, small, "times.p2p=0ms", "times.optimizer=0ms", "memory.activation=0B"))
	require.Equal(t, want, got)
	_, want = run(t, parse(t, ring))
	_, got = run(t, parse(t, ring, "collective.convention=nccl"))
	require.Equal(t, want, got)
}

// A memory limit is every rank's capacity; without one it is unlimited.
func TestLimit(t *testing.T) {
	experiment, _ := run(t, parse(t, small))
	require.Nil(t, experiment.Capacity)
	experiment, s := run(t, parse(t, small, "memory.activation=1GB", "memory.limit=3GB"))
	require.Equal(t, []int64{3e9, 3e9}, experiment.Capacity)
	require.EqualValues(t, 4e9, s.Ranks[0].PeakMemory)
}

// [batch] and schedule.microbatches may each imply the other.
func TestBatch(t *testing.T) {
	for _, e := range []struct {
		sets         []string
		microbatches []int64
		total        int64
	}{
		{[]string{"schedule.microbatches=4"}, []int64{4, 4, 4, 4}, 16},
		{[]string{"batch.micro=4"}, []int64{4, 4, 4, 4}, 16},
		{[]string{"batch.global=15"}, []int64{4, 4, 4, 3}, 15},
		{[]string{"batch.global=30", "parallel.data=2"}, []int64{4, 4, 4, 3}, 30},
	} {
		experiment, _ := run(t, parse(t, networkKeys, append(e.sets, "machine.link=pcie4")...))
		require.Equal(t, e.microbatches, experiment.Staged.Samples, e.sets)
		require.Equal(t, e.total, experiment.Samples)
		require.Equal(t, 32*e.total, experiment.Tokens)
	}
	// With [times] it only counts.
	experiment, _ := run(t, parse(t, small, "batch.global=10", "batch.micro=3"))
	require.EqualValues(t, 10, experiment.Samples)
	require.Equal(t, 4, experiment.Graph.Shape.Microbatches)
}
