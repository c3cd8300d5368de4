package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// A typed name decides of what the file has for another schedule: ddp and fsdp have one
// stage, and fsdp is ddp with zero = 3.
func TestTypedName(t *testing.T) {
	for _, c := range []struct {
		example string
		sets    []string
		zero    int
	}{
		{"exec", []string{"schedule.name=ddp"}, 0},
		{"gpt2-4090d-pipeline", []string{"schedule.name=ddp"}, 0}, // has a partition of its own
		{"exec", []string{"schedule.name=fsdp"}, 3},
		{"exec", []string{"schedule.name=fsdp", "schedule.stages=1", "parallel.zero=3"}, 3},
		{"exec", []string{"parallel.data=2", "schedule.name=fsdp"}, 3},
		{"ddp", []string{"schedule.name=fsdp"}, 3},
		{"fsdp", []string{"schedule.name=fsdp"}, 3},
	} {
		loaded, err := configs.Load(c.example, c.sets...)
		require.NoError(t, err, c)
		require.Equal(t, "ddp", loaded.Schedule.Name)
		require.Equal(t, 1, loaded.Schedule.Stages)
		require.Equal(t, c.zero, loaded.Parallel.Zero)
		experiment, err := loaded.Build()
		require.NoError(t, err, c)
		require.Equal(t, "ddp", experiment.Graph.Name)
	}
}

// What contradicts the name beside which it was written or typed is an error.
func TestContradictsName(t *testing.T) {
	const stages = "ddp does not split the network, so it takes 1"
	for _, c := range []struct {
		example string
		sets    []string
		want    string
	}{
		{"exec", []string{"schedule.name=ddp", "schedule.stages=2"}, "schedule.stages=2: schedule.stages = 2: " + stages},
		{"exec", []string{"schedule.stages=2", "schedule.name=fsdp"}, stages},
		{"ddp", []string{"schedule.stages=2"}, stages},
		{"exec", []string{"schedule.name=fsdp", "parallel.zero=1"}, `parallel.zero=1: parallel.zero = 1: schedule.name = "fsdp" is ddp with zero = 3`},
		{"zero-bubble", []string{"schedule.name=fsdp"}, "[times] has no network"},
	} {
		loaded, err := configs.Load(c.example, c.sets...)
		if err == nil {
			_, err = loaded.Build()
		}
		require.ErrorContains(t, err, c.want)
	}
	_, err := configs.Parse("x.toml", []byte("[schedule]\nname = \"fsdp\"\n[parallel]\ndata = 2\nzero = 2\n[model]\npreset = \"gpt2\"\n[batch]\nglobal = 4\n[machine]\ndevice = \"t4\"\n"))
	require.ErrorContains(t, err, "x.toml:5:8: parallel.zero = 2: schedule.name")
}

// More or fewer replicas keep the samples of each, unless the batch is typed; devices
// that a network cannot be cut for are blamed on --gpus.
func TestReplicasOnDevices(t *testing.T) {
	for _, c := range []struct {
		example string
		sets    []string
		devices int
		global  int64
		want    string
	}{
		{"ddp", nil, 2, 16, "runs 2 replicas instead of 8, of 8 samples each as before: batch.global = 16 instead of 64"},
		{"ddp", nil, 8, 64, ""},
		{"ddp", []string{"batch.global=64"}, 2, 64, "runs 2 replicas instead of 8, which share batch.global = 64"},
		{"vgg16-cpu-fsdp", nil, 2, 128, "runs 2 replicas instead of 4, of 64 samples each as before: batch.global = 128 instead of 256"},
		{"exec", []string{"schedule.name=ddp"}, 2, 32, "runs 2 replicas instead of 1, of 16 samples each as before: batch.global = 32 instead of 16"},
	} {
		loaded, err := configs.Load(c.example, c.sets...)
		require.NoError(t, err)
		run, changes, err := loaded.Executable(c.devices)
		require.NoError(t, err)
		require.Equal(t, c.global, run.Batch.Global)
		require.Equal(t, c.devices, run.Parallel.Data)
		if c.want != "" {
			require.Contains(t, changes, c.want)
		}
		experiment, err := run.Build()
		require.NoError(t, err)
		require.Subset(t, experiment.Warnings, changes)
		require.Equal(t, c.devices, experiment.Graph.Ranks())
	}
	loaded, err := configs.Load("gpipe")
	require.NoError(t, err)
	run, _, err := loaded.Executable(20)
	require.NoError(t, err)
	_, err = run.Build()
	require.ErrorContains(t, err, "--gpus 20: schedule.stages = 20: gpt2 has 15 layers")
}

// FSDP holds one microbatch at a time, however many layers it has.
func TestShardedInFlight(t *testing.T) {
	for _, name := range []string{"ddp", "fsdp"} {
		experiment, s := example(t, name, "batch.global=64", "batch.micro=2")
		require.Greater(t, experiment.Graph.Shape.Microbatches, 1)
		for _, r := range s.Ranks {
			require.Equal(t, 1, r.PeakInFlight)
		}
	}
}
