package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/plans"
	"psim/results"
	"psim/results/rankings"
)

// TestSearch ranks the plans of a network: the best is "auto", all orders fit, and
// running the settings of a plan gives what the search says.
func TestSearch(t *testing.T) {
	userFolder(t)
	const sets = " --set batch.global=8 --set machine.compute.memory=4GB"
	stdout, stderr, code := psim(t, "psim search gpipe --json"+sets)
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &object))
	for _, key := range []string{"plans", "evaluated", "pruned", "seconds"} {
		require.Contains(t, object, key)
	}
	plans, err := readPlans(stdout)
	require.NoError(t, err)
	require.Equal(t, len(plans.Plans), plans.Evaluated)
	require.Zero(t, plans.Pruned)
	schedules, microbatches := map[string]bool{}, map[int]bool{}
	for _, p := range plans.Plans {
		schedules[p.Schedule], microbatches[p.Microbatches] = true, true
		require.NotEmpty(t, p.Set)
	}
	require.True(t, schedules["auto"] && schedules["auto-v"] && schedules["1f1b"] && schedules["gpipe"])
	require.Equal(t, map[int]bool{1: true, 2: true, 4: true, 8: true}, microbatches)
	best := plans.Plans[slices.IndexFunc(plans.Plans, func(p rankings.Candidate) bool { return p.Schedule == "auto" })]
	require.NotNil(t, best.Search)

	stdout, _, code = psim(t, "psim run gpipe --json"+sets+" --set "+strings.Join(best.Set, " --set "))
	require.Zero(t, code)
	var r results.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, best.StepTime, r.StepTime)
	require.Equal(t, best.Ranks, r.Ranks)
}

func TestSearchFiles(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("auto.toml", []byte(autoTimes), 0o644))
	var first map[string]string
	for _, folder := range []string{"a", "b"} {
		stdout, stderr, code := psim(t, "psim search auto.toml --out "+folder)
		require.Zero(t, code, stderr)
		require.Equal(t, "wrote pareto.png, plan-1.toml … plan-14.toml, plans.json in "+folder+"\n", stderr)
		require.Contains(t, stdout, "the best: --set schedule.name=")
		files := contents(t, folder)
		require.Len(t, files, 16)
		require.NotContains(t, files["plans.json"], "seconds")
		if first != nil {
			require.Equal(t, first["plans.json"], files["plans.json"])
			require.True(t, first["pareto.png"] == files["pareto.png"])
		}
		first = files
	}
	// Without memory there is nothing to draw, and the old picture goes.
	require.NoError(t, os.WriteFile("auto.toml", []byte(strings.Split(autoTimes, "[memory]")[0]), 0o644))
	_, stderr, code := psim(t, "psim search auto.toml --out a")
	require.Zero(t, code)
	require.Equal(t, "wrote plan-1.toml … plan-20.toml, plans.json in a\n", stderr)
	require.Len(t, contents(t, "a"), 21)
}

// If no plan fits, all are listed, and the command fails.
func TestSearchNoneFits(t *testing.T) {
	userFolder(t)
	stdout, stderr, code := psim(t, "psim search gpipe --set machine.compute.memory=1GB --quiet")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "none fits in memory; the least is needed with")
	require.Empty(t, stderr)
	stdout, stderr, code = psim(t, "psim search gpipe --set machine.compute.memory=1GB --json --quiet")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, `"fits_memory": false`)
	require.Equal(t, "psim: no plan fits in memory\n", stderr)
}

// With equal [times] for all stages, schedules with several stages per rank
// take part, and every rank does the same work in all.
func TestSearchCuts(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("auto.toml", []byte(autoTimes), 0o644))
	for own, perRank := range map[string]int{"auto": 1, "zbv": 2} {
		stdout, stderr, code := psim(t, "psim search auto.toml --json --set memory.limit=8GB --set schedule.name="+own)
		require.Zero(t, code, stderr)
		plans, err := readPlans(stdout)
		require.NoError(t, err)
		virtual := map[string]int{}
		for _, p := range plans.Plans {
			virtual[p.Schedule] = max(virtual[p.Schedule], p.VirtualStages)
			for _, r := range p.Ranks {
				require.InDelta(t, 0.12*float64(perRank), r.Compute, 1e-12, p.Schedule)
			}
		}
		require.Equal(t, 2, virtual["auto-v"])
		require.Equal(t, 2, virtual["zbv"])
		require.Equal(t, 4, virtual["interleaved-1f1b"])
		require.Equal(t, 1, virtual["1f1b"])
		require.NotContains(t, virtual, "dualpipe")
	}

	// Stages with different times cannot be cut into more stages.
	stdout, _, code := psim(t, `psim search auto.toml --json --set times.forward=["10ms","12ms"]`)
	require.Zero(t, code)
	plans, err := readPlans(stdout)
	require.NoError(t, err)
	require.NotEmpty(t, plans.Plans)
	for _, p := range plans.Plans {
		require.Equal(t, 1, p.VirtualStages, p.Schedule)
	}
}

// A row with divided times says so, and its settings run to its figure. The same schedule with the
// file's own times is twice the work, which run and sweep say.
func TestSearchSaysDividedTimes(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("auto.toml", []byte(autoTimes), 0o644))
	stdout, stderr, code := psim(t, "psim search auto.toml --rows 99")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^  interleaved-1f1b +2 .*  times divided by 2$`, stdout)
	require.Regexp(t, `(?m)^  1f1b +1 .*  (yes|unknown)$`, stdout)
	stdout, stderr, code = psim(t, "psim search auto.toml --json")
	require.Zero(t, code, stderr)
	var plans rankings.Ranking
	require.NoError(t, json.Unmarshal([]byte(stdout), &plans))
	i := slices.IndexFunc(plans.Plans, func(p rankings.Candidate) bool {
		return p.Schedule == "interleaved-1f1b" && p.VirtualStages == 2
	})
	plan := plans.Plans[i]
	require.Equal(t, 2.0, plan.TimesDividedBy)
	var r results.Result
	stdout, stderr, code = psim(t, "psim run auto.toml --json --set "+strings.Join(plan.Set, " --set "))
	require.Zero(t, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, plan.StepTime, r.StepTime)
	require.NotContains(t, strings.Join(r.Warnings, "\n"), "of each stage")

	const more = "[times] are of each stage: 4 stages do 2 times the work of the 2 in auto.toml; for the same work: --set times.forward="
	const sets = " --set schedule.name=interleaved-1f1b --set schedule.virtual_stages=2"
	stdout, _, code = psim(t, "psim run auto.toml --out -"+sets)
	require.Zero(t, code)
	require.Contains(t, stdout, "warning: "+more)
	stdout, _, code = psim(t, "psim run auto.toml --json"+sets)
	require.Zero(t, code)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Contains(t, strings.Join(r.Warnings, "\n"), more)
	stdout, _, code = psim(t, "psim sweep auto.toml --vary schedule.microbatches=4,8"+sets)
	require.Zero(t, code)
	require.Contains(t, stdout, "warning: "+more)
	stdout, _, code = psim(t, "psim sweep auto.toml --set schedule.name=interleaved-1f1b --vary schedule.virtual_stages=1,2")
	require.Zero(t, code)
	require.Contains(t, stdout, "a microbatch is more work in 4 stages than in 2")
}

// If the parameters alone do not fit, nothing is simulated, and the output says so.
func TestSearchPrunes(t *testing.T) {
	userFolder(t)
	stdout, _, code := psim(t, "psim search gpipe --json --set batch.global=2 --set machine.compute.memory=100MB")
	require.Equal(t, exitFailed, code)
	plans, err := readPlans(stdout)
	require.NoError(t, err)
	require.Empty(t, plans.Plans)
	require.Zero(t, plans.Evaluated)
	require.Greater(t, plans.Pruned, 5)
}

func TestSearchErrors(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.Mkdir("mine", 0o755))
	require.NoError(t, os.WriteFile(filepath.Join("mine", "plans.json"), []byte("[]"), 0o644))
	for line, want := range map[string]string{
		"psim search":                                                     "takes one CONFIG",
		"psim search nowhere.toml":                                        "no such file",
		"psim search gpipe --rows 0":                                      "--rows 0: must be at least 1",
		"psim search gpipe --set schedule.file=mine.csv":                  "schedule.file gives the order, but a search chooses it; remove file",
		"psim search ring-allreduce":                                      "[collective] has no schedule",
		"psim search gpipe --out mine":                                    "plans.json was not written by psim",
		"psim search gpipe --set schedule.stages=1000":                    "stages = 1000",
		"psim schedule auto":                                              "auto has no order before tasks have times",
		"psim schedule auto-v":                                            "psim run CONFIG --set schedule.name=auto-v finds one",
		"psim run gpipe --set schedule.name=auto-v --exact":               "--exact: proves the order of schedule.name = \"auto\", not of auto-v",
		"psim run gpipe --exact":                                          "--exact: proves the order of schedule.name = \"auto\", not of gpipe",
		"psim run gpipe --set schedule.name=auto --exact --time-limit 0s": "--time-limit 0s: must be more than 0",
	} {
		_, stderr, code := psim(t, line)
		require.Equal(t, exitUsage, code, line)
		require.Contains(t, stderr, want, line)
	}
}

// After an interrupt the plans found so far are saved and marked as partial. Before the first plan
// nothing is saved.
func TestSearchInterrupted(t *testing.T) {
	userFolder(t)
	c, err := configs.Load("gpipe")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	found, err := plans.Schedules(ctx, c, func(plan, _ int, _ []string) {
		if plan == 6 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, found.Plans, 5)
	require.True(t, found.Partial)
	var out strings.Builder
	f := searchFlags{outputFlags: outputFlags{out: "o"}, rows: 3}
	require.NoError(t, f.saveRanking(ctx, found, c.Name(), io.Discard))
	require.NoError(t, f.printRanking(found, &out))
	require.Contains(t, out.String(), "\nwarning: the search was interrupted; there may be better plans\n")
	plans, err := readPlans(contents(t, "o")["plans.json"])
	require.NoError(t, err)
	require.True(t, plans.Partial)
	require.Len(t, plans.Plans, 5)

	code := Run(ctx, strings.Fields("search gpipe --out p"), &out, io.Discard)
	require.Equal(t, exitFailed, code)
	require.NoFileExists(t, "p/plans.json")
}

// The output names schedules without any plan, with the reason, and prints the warnings of the best
// plan.
func TestSearchLeavesOut(t *testing.T) {
	userFolder(t)
	const line = "psim search gpt2-4090d-pipeline --set machine.compute.memory=1370MB"
	stdout, _, code := psim(t, line+" --json")
	require.Equal(t, exitFailed, code, "none of those that are left fits")
	plans, err := readPlans(stdout)
	require.NoError(t, err)
	reasons := map[string]string{}
	for _, l := range plans.LeftOut {
		require.NotContains(t, reasons, l.Schedule)
		reasons[l.Schedule] = l.Reason
	}
	for _, p := range plans.Plans {
		require.NotContains(t, reasons, p.Schedule)
	}
	require.Contains(t, reasons["1f1b"], "it needs one stage per rank")
	require.False(t, plans.Plans[0].FitsMemory)
	stdout, _, code = psim(t, line)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, "\nnot possible here (--json says why): torchgpipe, 1f1b, ")
	require.NotEmpty(t, plans.Plans[0].Warnings)
	require.Contains(t, stdout, "\nwarning: "+plans.Plans[0].Warnings[0]+"\n")

	// Stages with different times cannot be cut into more stages.
	require.NoError(t, os.WriteFile("auto.toml", []byte(autoTimes), 0o644))
	stdout, _, code = psim(t, `psim search auto.toml --json --set times.forward=["10ms","12ms"]`)
	require.Zero(t, code)
	plans, err = readPlans(stdout)
	require.NoError(t, err)
	require.Equal(t, rankings.LeftOut{Schedule: "zbv", Reason: "holds several stages per rank, and [times] or activations that differ between stages, or do not divide evenly, cannot be shared among them"}, plans.LeftOut[0])
}

// A group and a list of layers per stage apply to one number of stages per rank. The search tries it
// with them, and other numbers without.
func TestSearchGroup(t *testing.T) {
	userFolder(t)
	stdout, stderr, code := psim(t, "psim search megatron-175b --json --set batch.global=16")
	require.Zero(t, code, stderr)
	plans, err := readPlans(stdout)
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, p := range plans.Plans {
		key := fmt.Sprint(p.Schedule, p.VirtualStages)
		seen[key] = true
		require.Equal(t, p.Schedule != "interleaved-1f1b" || p.VirtualStages == 1, slices.Contains(p.Set, "schedule.group=0"), key)
		require.Equal(t, p.VirtualStages != 3, slices.Contains(p.Set, "schedule.partition=balanced"), key)
	}
	for _, key := range []string{"1f1b1", "interleaved-1f1b3", "interleaved-1f1b4", "zbv2", "hanayo4"} {
		require.True(t, seen[key], key)
	}
	_, stderr, code = psim(t, "psim run megatron-175b --out - --set batch.global=16 --set "+strings.Join(plans.Plans[0].Set, " --set "))
	require.Zero(t, code, stderr)
}

// readPlans reads the JSON of a ranking.
func readPlans(text string) (r rankings.Ranking, err error) {
	err = json.Unmarshal([]byte(text), &r)
	return r, err
}
