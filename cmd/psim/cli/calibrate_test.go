package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/calibrate/layers"
	"psim/configs"
)

// tinyGPT is a network that takes a few milliseconds to measure.
const tinyGPT = `[schedule]
name = "gpipe"
stages = 1
[model]
family = "gpt"
layers = 2
hidden = 16
heads = 2
vocab = 32
sequence_length = 8
[batch]
micro = 2
[machine]
device = "t4"
link = "pcie3"
`

// tinyFolder moves the test into a folder with tiny.toml.
func tinyFolder(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("tiny.toml", []byte(tinyGPT), 0o644))
}

// A calibration makes a machine file with which psim run predicts the measured times, for any number
// of microbatches.
func TestCalibrate(t *testing.T) {
	tinyFolder(t)
	stdout, stderr, code := psim(t, "psim calibrate tiny.toml --repeats 2")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "h.0 (2 such)")
	require.Contains(t, stdout, "wrote my-machine.toml; use it with\n  psim run tiny.toml --set machine.file=my-machine.toml\n")
	first, err := os.ReadFile("my-machine.toml")
	require.NoError(t, err)
	require.Contains(t, string(first), "#   psim calibrate tiny.toml --repeats 2 --out my-machine.toml\n")

	stdout, stderr, code = psim(t, "psim calibrate tiny.toml --repeats 1 --samples 2,4 --quiet --json")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	var found layers.Calibration
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	second, err := os.ReadFile("my-machine.toml")
	require.NoError(t, err)
	require.NotEqual(t, first, second, "its own file is replaced")
	require.Len(t, found.Layers, 4*2)
	compute := 0.0
	for _, l := range found.Layers {
		require.Contains(t, []int64{2, 4}, l.Samples)
		if l.Samples == 2 {
			compute += float64(l.Count) * (l.Forward + l.Backward)
		}
	}
	for _, microbatches := range []string{"1", "3"} {
		stdout, stderr, code = psim(t, "psim run tiny.toml --json --set schedule.microbatches="+microbatches+" --set machine.file=my-machine.toml")
		require.Zero(t, code, stderr)
		var r struct {
			Microbatches float64
			Ranks        []struct {
				Compute   float64 `json:"compute_s"`
				Optimizer float64 `json:"optimizer_s"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &r))
		require.InDelta(t, r.Microbatches*compute, r.Ranks[0].Compute, 1e-8)
		require.Positive(t, r.Ranks[0].Optimizer)
	}
}

// Without CONFIG calibrate measures the layers of a default network.
func TestCalibrateDefault(t *testing.T) {
	c, err := configs.Load(defaultNetwork)
	require.NoError(t, err)
	n, micro, err := c.Trained()
	require.NoError(t, err)
	require.Positive(t, micro)
	require.GreaterOrEqual(t, len(n.Distinct()), 4)
	require.Contains(t, calibrateFlags{outputFlags: outputFlags{out: "x y.toml"}}.nextCommand(defaultNetwork), "psim run exec --set 'machine.file=x y.toml'")
	require.Equal(t, []int{1, 2}, layers.Sizes(1))
	require.Equal(t, []int{1, 3, 6}, layers.Sizes(3))
}

// Wrong flags are refused before anything is measured, and a file of another origin is not replaced.
func TestCalibrateErrors(t *testing.T) {
	tinyFolder(t)
	require.NoError(t, os.WriteFile("foreign.toml", []byte("[machine]\n"), 0o644))
	require.NoError(t, os.Mkdir("folder", 0o755))
	for _, c := range []struct{ line, want string }{
		{"--out foreign.toml", "--out foreign.toml: was not written by psim; name another file, or replace it with --overwrite"},
		{"--out tiny.toml", "was not written by psim"},
		{"--out folder", "--out folder: is a folder; name a file"},
		{"--out none/m.toml", "--out none/m.toml: there is no folder none"},
		{"--repeats 0", "--repeats 0: must be between 1 and 100000"},
		{"--samples 2,0", "--samples 0: a microbatch has at least 1 sample"},
		{"--samples 1000000000", "would need about"},
		{"--set train.precision=bf16", "--set train.precision=bf16: train.precision = \"bf16\": layers are measured in fp32"},
		{"course-timeline", "calibrate takes one CONFIG or none, not tiny.toml course-timeline"},
	} {
		stdout, stderr, code := psim(t, "psim calibrate tiny.toml --quiet "+c.line)
		require.Equal(t, exitUsage, code, c.line)
		require.Contains(t, stderr, c.want)
		require.Empty(t, stdout)
	}
	_, stderr, code := psim(t, "psim calibrate course-timeline")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: course-timeline: has no [model] whose layers could be measured\n", stderr)
	_, stderr, code = psim(t, "psim calibrate tiny.toml --quiet --set model.family=llama --set model.ffn_hidden=32")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: tiny: llama-2x16 cannot be executed, so that its layers cannot be measured; there are programs for gpt, mlp and vgg16\n", stderr)
	require.NoFileExists(t, defaultMachineFile)
	data, err := os.ReadFile("foreign.toml")
	require.NoError(t, err)
	require.Equal(t, "[machine]\n", string(data))
}

// An interrupted calibration leaves no file.
func TestCalibrateInterrupted(t *testing.T) {
	tinyFolder(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	code := Run(ctx, []string{"calibrate", "tiny.toml"}, &stdout, &stderr)
	require.Equal(t, exitFailed, code)
	require.Equal(t, "psim: interrupted\n", stderr.String())
	require.Empty(t, stdout.String())
	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, left, 1, "the configuration alone")
}
