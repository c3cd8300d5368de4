package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A flag that means nothing to PyTorch is refused before anything runs, and so is what its program cannot
// follow; without a Python with PyTorch the error says how to get one.
func TestEngineErrors(t *testing.T) {
	userFolder(t)
	t.Setenv("PSIM_PYTHON", "/nowhere/python")
	for _, c := range []struct {
		command, want string
		code          int
	}{
		{"psim exec --engine tensorflow", "psim: --engine tensorflow: use gomlx or torch", 2},
		{"psim exec --engine torch --backend xla", "psim: --backend: does not apply with --engine torch", 2},
		{"psim exec --engine torch --check output", "psim: --check output: PyTorch's outputs are not compared; use weights, grads, loss or all", 2},
		{"psim calibrate --engine tensorflow", "psim: --engine tensorflow: use gomlx or torch", 2},
		{"psim calibrate --engine torch --samples 2", "psim: --engine torch times the configuration's own microbatches here", 2},
		{"psim calibrate --engine torch", "no Python with PyTorch (2.8 or later) was found", 1},
		{"psim exec --engine torch --gpus 2", "no Python with PyTorch (2.8 or later) was found; looked at /nowhere/python", 1},
	} {
		_, stderr, code := psim(t, c.command)
		require.Equal(t, c.code, code, c.command)
		require.Contains(t, stderr, c.want)
	}
	t.Setenv("PSIM_PYTHON", "true") // a Python that has everything and does nothing
	_, stderr, code := psim(t, "psim exec --engine torch --set model.dropout=0.1 --set schedule.name=gpipe")
	require.Equal(t, 2, code, stderr)
	require.Contains(t, stderr, "model.dropout: export torch: the program has no dropout; set dropout = 0")
}

// The weights are a second file, with which the program begins; weights that are too large are refused.
func TestExportWeights(t *testing.T) {
	userFolder(t)
	small := " --set model.preset=vgg-mini --set batch.global=8 --set parallel.data=2"
	stdout, stderr, code := psim(t, "psim export torch vgg16-cpu-ddp --weights -o torch"+small)
	require.Equal(t, 0, code, stderr)
	require.Equal(t, "wrote torch/train.py and weights.safetensors; run it with\n"+
		"  python torch/train.py --start torch/weights.safetensors\n", stdout)
	require.FileExists(t, "torch/weights.safetensors")
	_, stderr, code = psim(t, "psim export torch exec --weights -o big --set model.hidden=8192 --set model.layers=16")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "psim: --weights: 51.6 GB of weights in fp32 are more than the 4.00 GB that psim writes; ")
	require.NoDirExists(t, "big")
}
