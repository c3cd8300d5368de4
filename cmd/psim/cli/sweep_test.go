package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A sweep's files have a line for each index, with the settings and the result of psim run, whether
// the sweep was computed at once, resumed or merged.
func TestSweepFiles(t *testing.T) {
	userFolder(t)
	const vary = "psim sweep gpipe --vary schedule.name=gpipe,1f1b --vary schedule.partition=[4,4,4,3],[3,4,4,4] --quiet"
	stdout, stderr, code := psim(t, vary+" --json --out whole")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	var all struct {
		Results []struct {
			Index  int
			Set    []string
			Result map[string]any
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &all))
	require.Len(t, all.Results, 4)
	data, err := os.ReadFile("whole/sweep.jsonl")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	require.Len(t, lines, 4)
	for i, line := range lines {
		var p struct {
			Index  int
			Set    []string
			Result map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(line), &p))
		require.Equal(t, i, p.Index)
		require.Equal(t, all.Results[i].Set, p.Set)
		alone, _, code := psim(t, "psim run gpipe --json --set "+strings.Join(p.Set, " --set "))
		require.Zero(t, code)
		var r map[string]any
		require.NoError(t, json.Unmarshal([]byte(alone), &r))
		delete(r, "build_s")
		delete(r, "simulation_s")
		require.Equal(t, r, p.Result)
	}
	for _, shard := range []string{"1/3", "2/3", "3/3"} {
		_, stderr, code := psim(t, vary+" --out parts --shard "+shard)
		require.Zero(t, code, stderr)
	}
	stdout, stderr, code = psim(t, "psim merge parts --out merged --csv --quiet")
	require.Zero(t, code, stderr)
	require.Equal(t, contents(t, "whole"), contents(t, "merged"))
	require.Equal(t, contents(t, "whole")["sweep.csv"], stdout)
	require.Contains(t, contents(t, "whole"), "sweep.png")
	require.NotContains(t, contents(t, "whole"), "sweep.journal")

	require.NoError(t, os.RemoveAll("parts/shard-2-of-3"))
	stdout, stderr, code = psim(t, "psim merge parts --out less")
	require.Equal(t, exitFailed, code)
	require.Empty(t, stdout)
	require.Equal(t, "psim: 1 of 4 points are missing\n  schedule.name=gpipe schedule.partition=[3,4,4,4]\n", stderr)
	require.NoDirExists(t, "less")
}

// Impossible combinations are rows, and a failure only if all are impossible.
func TestSweepExitCodes(t *testing.T) {
	userFolder(t)
	stdout, _, code := psim(t, "psim sweep gpipe --vary schedule.stages=2,20")
	require.Zero(t, code)
	require.Contains(t, stdout, "1 combination cannot be:\n  schedule.stages=20: schedule.stages = 20: gpt2 has 15 layers")
	_, stderr, code := psim(t, "psim sweep gpipe --vary schedule.stages=20,30 --out o")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "psim: none of the combinations is possible\n")
	t.Setenv("SLURM_ARRAY_TASK_ID", "3")
	_, stderr, code = psim(t, "psim sweep gpipe --vary schedule.stages=2")
	require.Zero(t, code)
	require.Equal(t, "psim: this is task 3 of a job array, and computes all points; --shard auto would compute its part\n", stderr)
	t.Setenv("SLURM_ARRAY_TASK_COUNT", "4")
	t.Setenv("SLURM_ARRAY_TASK_MIN", "0")
	t.Setenv("SLURM_ARRAY_TASK_MAX", "3")
	_, stderr, code = psim(t, "psim sweep gpipe --vary schedule.microbatches=1,2,4,8 --shard auto --out o")
	require.Zero(t, code)
	require.Contains(t, stderr, "in o/shard-4-of-4\n")
}

// An interrupt before the first point leaves no folder.
func TestSweepInterruptedEarly(t *testing.T) {
	userFolder(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stderr strings.Builder
	line := "sweep gpipe --vary schedule.stages=2 --out a/b/c"
	require.Equal(t, exitFailed, Run(ctx, strings.Fields(line), io.Discard, &stderr))
	require.Equal(t, "psim: interrupted\n", stderr.String())
	require.NoDirExists(t, "a")
}

func TestRemaining(t *testing.T) {
	require.Equal(t, "50 of 200 points, about 30s left", remaining(50, 200, 10*time.Second))
}

// TestSweepNoFolder checks that - as --out names no folder, as for run and exec.
func TestSweepNoFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, out := range []string{"-", "parts/0"} {
		_, stderr, code := psim(t, "psim sweep gpipe --vary schedule.microbatches=4,8 --out "+out)
		require.Zero(t, code, stderr)
	}
	_, stderr, code := psim(t, "psim merge parts/0 --out -")
	require.Zero(t, code, stderr)
	_, stderr, code = psim(t, "psim search 1f1b --quiet --out -")
	require.Zero(t, code, stderr)
	require.NoDirExists(t, "-")

	_, stderr, code = psim(t, "psim sweep gpipe --vary schedule.microbatches=4,8 --out - --shard 1/2")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "--shard: needs --out")
}

// sweep.png shows the number by which the text recommends a point: of [times] without a batch that is
// microbatches per second, since steps differ in work.
func TestSweepPicturePace(t *testing.T) {
	userFolder(t)
	const given = "[schedule]\nname = \"gpipe\"\nstages = 4\nmicrobatches = 4\n" +
		"[times]\nforward = \"10ms\"\nbackward = \"20ms\"\n"
	require.NoError(t, os.WriteFile("t.toml", []byte(given), 0o644))
	stdout, stderr, code := psim(t, "psim sweep t.toml --vary schedule.microbatches=4,8 --out o")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "the highest throughput, in microbatches: --set schedule.microbatches=8")
	_, stderr, code = psim(t, "psim plot sweep o --metric microbatches_per_s --out rate.png")
	require.Zero(t, code, stderr)
	rate, err := os.ReadFile("rate.png")
	require.NoError(t, err)
	require.Equal(t, contents(t, "o")["sweep.png"], string(rate))
}

// A sweep in which nothing fits says so, and which search may help, if devices and limit are known.
func TestSweepWithoutFit(t *testing.T) {
	userFolder(t)
	for vary, want := range map[string]string{
		"llama3-8b --device rtx-4090 --vary parallel.data=1,2":                   "no point fits in memory; psim search CONFIG --devices 1,2, with the same settings, looks for a plan that does",
		"gpipe --set machine.compute.memory=1GB --vary schedule.name=gpipe,1f1b": "no point fits in memory; psim search CONFIG --devices 4, with the same settings, looks for a plan that does",
		"gpipe --vary schedule.name=gpipe,1f1b":                                  "",
		"course-timeline --vary schedule.name=gpipe,1f1b":                        "",
	} {
		stdout, stderr, code := psim(t, "psim sweep "+vary)
		require.Zero(t, code, stderr)
		if want == "" {
			require.NotContains(t, stdout, "no point fits")
		} else {
			require.Contains(t, stdout, "\n"+want+"\n")
		}
	}
	_, stderr, code := psim(t, "psim search llama3-8b --device rtx-4090 --devices 1,2 --rows 1")
	require.NotEqual(t, exitUsage, code, stderr)
}
