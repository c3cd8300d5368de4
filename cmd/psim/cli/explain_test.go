package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results/judged"
)

// TestExplain: the first line judges, for a log, a script with its log, and a configuration.
func TestExplain(t *testing.T) {
	folder, err := filepath.Abs("../../../launch/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	const machine = " --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr"
	for command, want := range map[string]string{
		"psim explain " + folder + "/train.log" + machine:                                                "nothing is wrong: 5.20 s, ",
		"psim explain " + folder + "/train.log --measured 9.8s" + machine:                                "slow: 9.80 s, ",
		"psim explain " + folder + "/train.log --measured 1s" + machine:                                  "cannot be: 1.00 s would be ",
		"psim explain " + folder + "/run.sh " + folder + "/train.log " + folder + "/common.sh" + machine: "nothing is wrong: 5.20 s, ",
		"psim explain llama3-70b --log " + folder + "/train.log":                                         "cannot be: 5.20 s would be ",
		"psim explain gpipe --measured 1s":                                                               "slow: 1.00 s, ",
	} {
		stdout, stderr, code := psim(t, command)
		require.Zero(t, code, stderr)
		require.True(t, strings.HasPrefix(stdout, want), "%s: %s", command, stdout)
	}
	stdout, stderr, code := psim(t, "psim explain gpipe --measured 1s --json")
	require.Zero(t, code, stderr)
	var h judged.Judgment
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.Equal(t, judged.Slow, h.Verdict)

	for command, want := range map[string]string{
		"psim explain":                                           "explain takes a log, a launch script or a CONFIG, not nothing",
		"psim explain gpipe":                                     "no measured step is known: name the log of the run (--log), a trace of PyTorch's profiler (--profile), or --measured 12.3s",
		"psim explain gpipe --measured 12":                       "--measured 12: must be a time above 0 with its unit, such as 12.3s",
		"psim explain gpipe --measured -1s":                      "--measured -1s: must be a time above 0",
		"psim explain gpipe ddp --measured 1s":                   "gpipe: is not a log or a script of Megatron-LM",
		"psim explain gpipe --log nowhere":                       "--log nowhere: no such file or directory",
		"psim explain gpipe --log " + folder + "/run.sh":         "has no line that says how long an iteration took",
		"psim explain " + folder + "/train.log":                  "--device is missing",
		"psim explain " + folder + "/train.log --network ib-ndr": "--device is missing",
	} {
		stdout, stderr, code := psim(t, command)
		require.Equal(t, 2, code, command)
		require.Empty(t, stdout, command)
		require.Contains(t, stderr, want, command)
	}
}

// TestBetter: the fastest plan is a patch of the user's script, and --emit writes it; what is not about the plan stays.
func TestBetter(t *testing.T) {
	folder, err := filepath.Abs("../../../launch/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	const machine = " --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr"
	read := func(name string) string {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		return string(data)
	}
	whole := strings.Replace(read(folder+"/run.sh"), "source common.sh\n", read(folder+"/common.sh"), 1)
	require.NoError(t, os.WriteFile("run.sh", []byte(whole), 0o644))
	stdout, stderr, code := psim(t, "psim explain run.sh --log "+folder+"/train.log --emit megatron -o better.sh --json"+machine)
	require.Zero(t, code, stderr)
	var h judged.Judgment
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.Equal(t, "better.sh", h.Written)
	require.Contains(t, h.Patch, "--- run.sh\n+++ run.sh\n@@ -")
	require.InEpsilon(t, h.Measured*h.Better.StepTime/h.Predicted, h.BetterMeasured, 1e-12)
	before, after := strings.Split(whole, "\n"), strings.Split(read("better.sh"), "\n")
	require.Len(t, after, len(before))
	changed := 0
	for i := range before {
		if before[i] != after[i] {
			changed++
		}
	}
	require.Equal(t, h.PatchedLines, changed)

	// The changed script is the better plan, and no other is much better.
	stdout, stderr, code = psim(t, "psim explain better.sh --measured 5s --json"+machine)
	require.Zero(t, code, stderr)
	predicted := h.Better.StepTime
	h = judged.Judgment{}
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.InEpsilon(t, predicted, h.Predicted, 1e-9)
	require.Nil(t, h.Better)

	stdout, stderr, code = psim(t, "psim explain better.sh --measured 5s --emit megatron -o none.sh"+machine)
	require.Equal(t, 1, code)
	require.Contains(t, stdout, "no plan that this program offers for these devices is faster by more than 1 %")
	require.Contains(t, stderr, "--emit: there is no better plan to write")
	require.NoFileExists(t, "none.sh")
	_, stderr, code = psim(t, "psim explain "+folder+"/train.log --emit megatron -o alone.sh"+machine)
	require.Zero(t, code, stderr)
	require.Contains(t, read("alone.sh"), "--micro-batch-size 4")
	stdout, stderr, code = psim(t, "psim explain llama3-70b --measured 120s --json")
	require.Zero(t, code, stderr)
	h = judged.Judgment{}
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.NotNil(t, h.Better)
	require.Empty(t, h.Patch+h.Unpatched, "no script was named")
	require.NoError(t, os.WriteFile("titan.toml", []byte("[job]\n[training]\nlocal_batch_size = 1\n[model]\nflavor = \"70B\"\n"+
		"[parallelism]\npipeline_parallel_degree = 8\npipeline_parallel_schedule = \"GPipe\"\n"), 0o644))
	stdout, stderr, code = psim(t, "psim explain titan.toml --measured 9s --json --devices 64 --device h100-80gb-sxm --devices-per-node 8 --network ib-ndr")
	require.Zero(t, code, stderr)
	h = judged.Judgment{}
	require.NoError(t, json.Unmarshal([]byte(stdout), &h))
	require.Empty(t, h.Patch+h.Unpatched, "the script is not one of Megatron-LM")
	for flags, want := range map[string]string{
		" --emit torch -o x": "--emit torch: unknown format", " --emit megatron": "--out is missing", " -o x": "--out is for the better plan",
	} {
		_, stderr, code := psim(t, "psim explain gpipe --measured 1s"+flags)
		require.Equal(t, 2, code)
		require.Contains(t, stderr, want)
	}
}
