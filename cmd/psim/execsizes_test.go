package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results"
)

// A collective by itself is printed so that calibrate reads it, and as JSON.
func TestExecCollective(t *testing.T) {
	userFolder(t)
	stdout, stderr, code := psim(t, "psim exec halving-doubling --gpus 4 --oversubscribe --sizes 8B-64KiB --repeats 2 --quiet")
	require.Zero(t, code, stderr)
	require.NoError(t, os.WriteFile("timed.txt", []byte(stdout), 0o644))
	_, stderr, code = psim(t, "psim calibrate --nccl timed.txt --out link.toml")
	require.Zero(t, code, stderr)

	stdout, stderr, code = psim(t, "psim exec ring-allgather --gpus 2 --oversubscribe --sizes 8B-128B --repeats 1 --json")
	require.Zero(t, code, stderr)
	var found results.CollectiveSizes
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.Equal(t, 1, found.Schema)
	require.Len(t, found.Sizes, 3)
	require.Equal(t, int64(128), found.Sizes[2].Bytes)
	require.InEpsilon(t, 64/found.Sizes[2].Time, found.Sizes[2].BusBandwidth, 1e-9)
	require.NoError(t, os.WriteFile("timed.json", []byte(stdout), 0o644))
	_, stderr, code = psim(t, "psim calibrate --nccl timed.json --out link.toml")
	require.Zero(t, code, stderr)
}

// Devices without cores of their own are told of where the times are, from where it gets
// beside what is fitted to them, and nowhere else.
func TestExecCollectiveShares(t *testing.T) {
	userFolder(t)
	const doubt = "2 devices that share cores: the times say little about devices of their own"
	line := "psim exec ring-allreduce --gpus 2 --cores-per-worker 1024 --oversubscribe --sizes 8B-64B --repeats 1"
	stdout, stderr, code := psim(t, line)
	require.Zero(t, code, stderr)
	require.NotContains(t, stderr, doubt)
	require.Contains(t, stdout, "\n# warning: "+doubt+"\n")
	stdout, stderr, code = psim(t, line+" --json --quiet")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	var found results.CollectiveSizes
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.False(t, found.TimesComparable)
	require.Equal(t, doubt, found.Warnings[0])
	require.NoError(t, os.WriteFile("timed.json", []byte(stdout), 0o644))
	stdout, stderr, code = psim(t, "psim calibrate --nccl timed.json")
	require.Zero(t, code, stderr)
	require.Contains(t, strings.Join(strings.Fields(stdout), " "), "all-reduces over 2 ranks were measured with a warning: "+doubt)
}

// Sizes begin and end as they are given, the last at a whole number.
func TestSizes(t *testing.T) {
	for text, want := range map[string][]int64{
		"8B-64B": {8, 32, 64}, "8B-128B": {8, 32, 128}, "8B": {8}, "4B-7B": {4}, "1KiB-5KiB": {1 << 10, 4 << 10, 5 << 10},
	} {
		sizes, err := parseSizes(text)
		require.NoError(t, err)
		require.Equal(t, want, sizes, text)
	}
	sizes, err := parseSizes("8B-1MiB")
	require.NoError(t, err)
	require.Equal(t, int64(1<<20), sizes[len(sizes)-1])
}

func TestExecCollectiveErrors(t *testing.T) {
	userFolder(t)
	for command, want := range map[string]string{
		"ring-allreduce --sizes 3B":                 "psim: --sizes 3B: begins with 3 bytes; numbers have 4 bytes, so begin with a multiple, such as 8B",
		"ring-allreduce --sizes 8B-4B":              "psim: --sizes 8B-4B: ends before it begins; give the smaller size first, such as 8B-64MiB",
		"ring-allreduce --sizes 8B-1TB":             "psim: --sizes 8B-1TB: must end at 4GiB at most",
		"ring-allreduce --sizes -8B-8B":             "psim: --sizes -8B-8B: must be two sizes with a dash between them, such as 8B-64MiB, or one",
		"ring-allreduce --sizes 8B-":                "psim: --sizes 8B-: must be two sizes",
		"ring-allreduce --sizes 8B--4B":             "psim: --sizes 8B--4B: must be two sizes",
		"ring-allreduce --sizes=":                   "psim: --sizes : must be two sizes",
		"ring-allreduce --gpus 1":                   "psim: --gpus 1: a collective needs at least 2 devices",
		"halving-doubling --gpus 6 --oversubscribe": "psim: --gpus 6: halving-doubling needs a power of two, such as 4",
		"ring-allreduce --set batch.global=2":       "psim: --set: has no meaning for a collective by itself, which takes --gpus, --devices, --backend, --share, --processes, --cores-per-worker, --oversubscribe, --warmup, --repeats, --stall, --sizes, --json, --quiet",
		"tree-allreduc":                             "psim: tree-allreduc: no such file, example or collective; did you mean tree-allreduce?\n",
		"gpipe --sizes 8B":                          "psim: --sizes: is of a collective by itself: psim exec ring-allreduce --gpus 2 --sizes 8B-64MiB; the collectives are ring-allreduce, ring-reduce-scatter, ring-allgather, tree-allreduce, halving-doubling, all-to-all",
	} {
		_, stderr, code := psim(t, "psim exec "+command)
		require.Equal(t, 2, code, command)
		require.Contains(t, stderr, want)
	}
}
