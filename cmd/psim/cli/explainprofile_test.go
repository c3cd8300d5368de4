package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results/judged"
)

// TestExplainProfile: traces of real ranks stand beside the prediction, class by class, and both sides add up.
func TestExplainProfile(t *testing.T) {
	folder, err := filepath.Abs("../../../profiles/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	explain := "psim explain " + folder + "/ddp.toml --json"
	judge := func(flags string) (h judged.Judgment) {
		t.Helper()
		stdout, stderr, code := psim(t, explain+flags)
		require.Zero(t, code, stderr)
		require.NoError(t, json.Unmarshal([]byte(stdout), &h))
		return h
	}
	traces := folder + "/traces"
	h := judge(" --profile " + traces)
	require.Equal(t, h.Profile.StepTime, h.Measured)
	require.Equal(t, []int{2, 2, 2, 4, 4}, []int{
		h.Profile.Ranks, h.Profile.World, h.Profile.Steps, h.Profile.Collectives, h.Profile.Matched,
	})
	require.True(t, h.Profile.Host)
	require.Positive(t, h.Profile.Skew)
	var predicted, measured float64
	by := map[string]judged.ClassTime{}
	for _, c := range h.ByClass {
		predicted, measured, by[c.Class] = predicted+c.Predicted, measured+c.Measured, c
	}
	require.InEpsilon(t, h.Predicted, predicted, 1e-6)
	require.InEpsilon(t, h.Measured, measured, 1e-9)
	require.InEpsilon(t, by["communication"].Measured, h.Profile.Transfer+h.Profile.Skew, 1e-9)
	require.Greater(t, by["products"].Measured, measured/3, "a block of width 256 is mostly products")
	for _, class := range []string{"attention", "between", "optimizer"} {
		require.Positive(t, by[class].Predicted, class)
		require.Positive(t, by[class].Measured, class)
	}

	// Both traces by name are the same; one of them knows no waiting; a measured step counts more than the profiled one.
	require.Equal(t, h, judge(" --profile "+traces+"/rank1.json.gz --profile "+traces+"/rank0.json.gz"))
	one := judge(" --profile " + traces + "/rank0.json.gz --measured 150ms")
	require.Equal(t, 0.15, one.Measured)
	require.Less(t, one.Profile.StepTime, 0.15)
	require.Zero(t, one.Profile.Skew)
	require.Zero(t, one.Profile.Matched)
	// Times of whole passes have no products: then computation is one class on both sides.
	require.NoError(t, os.WriteFile("times.toml", []byte("[schedule]\nname = \"gpipe\"\nstages = 2\nmicrobatches = 2\n"+
		"[times]\nforward = \"10ms\"\nbackward = \"20ms\"\n"), 0o600))
	explain = "psim explain times.toml --json"
	h = judge(" --profile " + traces)
	require.Equal(t, "computation", h.ByClass[0].Class)
	require.InEpsilon(t, 0.06, h.ByClass[0].Predicted, 1e-9)
	require.InEpsilon(t, by["products"].Measured+by["attention"].Measured+by["between"].Measured, h.ByClass[0].Measured, 1e-9)
}

// TestExplainProfileErrors: what is no trace, or not one of this run, is one clear error.
func TestExplainProfileErrors(t *testing.T) {
	folder, err := filepath.Abs("../../../profiles/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("list.json", []byte(`[{"ph": "X"}]`), 0o600))
	require.NoError(t, os.Mkdir("empty", 0o700))
	require.NoError(t, os.WriteFile("one.json", []byte(`{"deviceProperties": [{"name": "NVIDIA H100"}], "traceEvents": [`+
		`{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 3}]}`), 0o600))
	require.NoError(t, os.WriteFile("zero.json", []byte(`{"traceEvents": [`+
		`{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 0}]}`), 0o600))
	log := filepath.Join(folder, "..", "..", "launch", "testdata", "train.log")
	whole, err := os.ReadFile(folder + "/traces/rank0.json.gz")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("cut.json.gz", whole[:len(whole)/2], 0o600))
	wrong := append([]byte(nil), whole...)
	wrong[len(wrong)-8] ^= 1 // of the checksum
	require.NoError(t, os.WriteFile("wrong.json.gz", wrong, 0o600))
	require.NoError(t, os.WriteFile("rank9.json", []byte(`{"distributedInfo": {"rank": 9}, "traceEvents": [`+
		`{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 3}]}`), 0o600))
	require.NoError(t, os.WriteFile("more.json", []byte(`{"traceEvents": [`+
		`{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 1, "dur": 3}]}{}`), 0o600))
	for flags, want := range map[string]string{
		folder + "/ddp.toml --profile wrong.json.gz":                                            "--profile wrong.json.gz: its gzip is damaged: gzip: invalid checksum",
		folder + "/ddp.toml --profile more.json":                                                "has more after its object; a trace is one object",
		folder + "/ddp.toml --profile rank9.json":                                               "--profile: a trace is of rank 9, and the configuration has 2 devices, ranks 0 to 1; they must be of one run",
		folder + "/ddp.toml --set machine.device=h100-80gb-sxm --profile " + folder + "/traces": "--profile: the traces have no kernels of a GPU, and the configuration's device is h100-80gb-sxm; profile",
		folder + "/ddp.toml --profile nowhere.json":                                             "--profile nowhere.json: no such file",
		folder + "/ddp.toml --profile list.json":                                                "--profile list.json: is a list and no object",
		folder + "/ddp.toml --profile cut.json.gz":                                              "--profile cut.json.gz: ends in the middle, at byte ",
		folder + "/ddp.toml --profile zero.json":                                                "--profile zero.json: its step takes no time: the events have no durations",
		folder + "/ddp.toml --profile empty":                                                    "--profile empty: has no traces; they end in .json or .json.gz",
		folder + "/ddp.toml --profile " + folder + "/traces/rank0.json.gz --profile " + folder + "/traces/rank0.json.gz": "are both of rank 0; name one trace of each rank",
		log + " --profile one.json":             "no log or script names its device (the trace has NVIDIA H100)",
		"gpipe --profile " + folder + "/traces": "--profile: the traces are of a run of 2 ranks, and the configuration has 4 devices",
	} {
		stdout, stderr, code := psim(t, "psim explain "+flags)
		require.Equal(t, 2, code, flags)
		require.Empty(t, stdout, flags)
		require.Contains(t, stderr, want)
	}
}
