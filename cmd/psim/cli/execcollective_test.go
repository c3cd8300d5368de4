package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Sizes begin and end as given; the last is rounded down to a multiple of 4 bytes.
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
		"ring-allreduce --set batch.global=2":       "psim: --set: does not apply to a collective by itself, which takes --gpus, --devices, --backend, --share, --processes, --rank, --world-size, --master, --token-file, --cores-per-worker, --oversubscribe, --warmup, --repeats, --stall, --sizes, --json, --quiet",
		"tree-allreduc":                             "psim: tree-allreduc: no such file, example or collective; did you mean tree-allreduce?\n",
		"gpipe --sizes 8B":                          "psim: --sizes: applies only to a collective by itself: psim exec ring-allreduce --gpus 2 --sizes 8B-64MiB; the collectives are ring-allreduce, ring-reduce-scatter, ring-allgather, tree-allreduce, halving-doubling, all-to-all",
	} {
		_, stderr, code := psim(t, "psim exec "+command)
		require.Equal(t, 2, code, command)
		require.Contains(t, stderr, want)
	}
}
