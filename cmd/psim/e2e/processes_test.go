package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Several processes compute the same gradients of the first step and the same losses as one process,
// bit for bit, with any schedule and with unequal numbers of ranks. Only the first writes files.
func TestExecProcesses(t *testing.T) {
	t.Parallel()
	u := mlpUser(t)
	for i, c := range []struct {
		set  string
		gpus int
	}{
		{"schedule.name=gpipe", 4}, {"schedule.name=zbv --set model.layers=8", 3}, {"schedule.name=fsdp", 3},
	} {
		line := fmt.Sprintf("psim exec mlp.toml --gpus %d"+untimed+" --steps 2 --repeats 1 --set model.layers=4 --set %s", c.gpus, c.set)
		alone := u.execJSON(t, line+fmt.Sprintf(" --save-gradients alone%d", i))
		require.NotEmpty(t, alone.Losses)
		require.Empty(t, alone.Processes)
		gradients := u.contents(t, fmt.Sprint("alone", i))
		require.Len(t, gradients, c.gpus)
		for k := 2; k <= c.gpus; k++ {
			folder := fmt.Sprintf("together%d-%d", i, k)
			r := u.execJSON(t, line+fmt.Sprintf(" --save-gradients %s --processes %d", folder, k))
			require.Len(t, r.Processes, k)
			require.Equal(t, alone.Losses, r.Losses, "%s in %d processes", c.set, k)
			require.Equal(t, gradients, u.contents(t, folder), "%s in %d processes", c.set, k)
		}
	}
}

// Devices that cannot be divided among the processes are refused before any process is started.
func TestExecProcessesErrors(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, c := range [][2]string{
		{"psim exec --gpus 2 --processes 0", "--processes 0: there must be at least 1 process"},
		{"psim exec --gpus 2 --processes -1", "--processes -1: there must be at least 1 process"},
		{"psim exec --gpus 2 --processes 3", "--processes 3: more processes than devices (2)"},
		{"psim exec ring-allreduce --gpus 250 --processes 250", "psim: 250 devices on "},
		{"psim exec gpipe --gpus 200 --processes 200 --oversubscribe", "gpt2 has 15 layers, and every stage needs at least one"},
		{"psim exec gpipe --gpus 2 --processes 2 --oversubscribe --set model.hidden=24576 --set model.heads=16 --set model.layers=200", "of this machine's memory are free"},
		{"psim exec ring-allreduce --gpus 300 --processes 300", "--processes 300: at most 256 are started on one machine"},
		{"psim exec ring-allreduce --gpus 2 --processes 3", "--processes 3: more processes than devices (2)"},
	} {
		_, stderr, code := u.psim(t, c[0])
		require.Equal(t, exitUsage, code, c[0])
		require.Contains(t, stderr, c[1])
	}
	u.environment = []string{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2"}
	_, stderr, code := u.psim(t, "psim exec --gpus 2 --processes 2")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "psim: --processes 2: mpirun has started 2 processes already; leave the flag out")
	_, stderr, code = u.psim(t, "psim exec --gpus 2")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "this psim is built without MPI")
	for command, want := range map[string]string{
		"psim run gpipe":                        "psim: mpirun has started 2 processes, and each would do the same: start psim run without mpirun; only psim exec runs over several\n",
		"psim search gpipe --devices 4 --out o": "psim: mpirun has started 2 processes, and each would do the same: start psim search without mpirun, or give every process a part with --shard I/N\n",
	} {
		stdout, stderr, code := u.psim(t, command)
		require.Equal(t, exitUsage, code, command)
		require.Equal(t, want, stderr)
		require.Empty(t, stdout)
	}
	_, stderr, code = u.psim(t, "psim sweep gpipe --vary schedule.microbatches=4,8 --shard 1/2 --out o --quiet")
	require.Zero(t, code, stderr)
	u.environment[0] = "OMPI_COMM_WORLD_RANK=1"
	_, stderr, code = u.psim(t, "psim exec --gpus 2")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "psim: process 1 on ") // because no launcher ended it after the first had reported it
	require.Contains(t, stderr, "this psim is built without MPI")
	_, stderr, code = u.psim(t, "psim run gpipe")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "does its work in one process, and mpirun has started 2")
}
