package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// FSDP is called so in text and pictures, and its schedule is ddp.
func TestShardedIsNamed(t *testing.T) {
	userFolder(t)
	stdout, stderr, code := psim(t, "psim run ddp --set schedule.name=fsdp --set parallel.data=2 --set batch.global=16 --out o")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "ddp (FSDP): 1 stage, 1 microbatch, 2 data-parallel replicas, predicted\n")
	picture, err := os.ReadFile("o/timeline.svg")
	require.NoError(t, err)
	require.Contains(t, string(picture), ">ddp  ·  FSDP  ·  P = 1, M = 1, D = 2  ·  step ")
	stdout, stderr, code = psim(t, "psim run fsdp --json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `"schedule": "ddp",`)
	require.Contains(t, stdout, `"fully_sharded": true,`)
	stdout, stderr, code = psim(t, "psim run fsdp --out p")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "FSDP: 1 stage, 1 microbatch, 4 data-parallel replicas, predicted\n")
	require.Regexp(t, `(?m)^  0 .* GB +1 +`, stdout)
	for _, line := range []string{"psim compare o p", "psim plot timeline p --out q.svg"} {
		_, stderr, code = psim(t, line)
		require.Zero(t, code, stderr)
	}
	picture, err = os.ReadFile("q.svg")
	require.NoError(t, err)
	require.Contains(t, string(picture), ">FSDP  ·  P = 1, M = 1, D = 4  ·  step ")
}

// A schedule that was typed runs on as many devices as were typed.
func TestTypedSchedule(t *testing.T) {
	userFolder(t)
	for _, name := range []string{"ddp", "fsdp"} {
		_, stderr, code := psim(t, "psim exec exec --gpus 2 --out - --set schedule.name="+name+tiny)
		require.Zero(t, code, stderr)
		require.Contains(t, stderr, "exec: runs 2 replicas instead of 1, of 16 samples each as before: batch.global = 32 instead of 16\n")
	}
	_, stderr, code := psim(t, "psim exec gpipe --gpus 20 --out -")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "psim: --gpus 20: schedule.stages = 20: gpt2 has 15 layers")
}
