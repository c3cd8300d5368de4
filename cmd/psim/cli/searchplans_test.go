package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results"
	"psim/results/rankings"
)

// fewPlans is a search with few plans.
const fewPlans = "psim search gpipe --devices 4 --schedules 1f1b,ddp,interleaved-1f1b --fix batch.micro --rows 5"

// The JSON has the fields that scripts read, and a run with a plan's settings gives the plan's numbers.
func TestSearchDevices(t *testing.T) {
	userFolder(t)
	stdout, stderr, code := psim(t, fewPlans+" --json")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &object))
	for _, key := range []string{"plans", "evaluated", "bounded", "pruned", "pruned_by", "gap", "seconds", "why"} {
		require.Contains(t, object, key)
	}
	plans := object["plans"].([]any)
	require.Len(t, plans, 5)
	best := plans[0].(map[string]any)
	for _, key := range []string{"data", "tensor", "stages", "virtual_stages", "micro", "microbatches", "schedule", "recompute", "zero", "sequence", "context", "expert"} {
		require.Contains(t, best["plan"], key)
	}
	require.NotContains(t, best, "build_s")
	line := "psim run gpipe --json"
	for _, set := range best["set"].([]any) {
		line += " --set " + set.(string)
	}
	stdout, _, code = psim(t, line)
	require.Zero(t, code)
	var again map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &again))
	require.Equal(t, best["step_time_s"], again["step_time_s"])
	require.Equal(t, best["ranks"], again["ranks"])

	stdout, _, code = psim(t, fewPlans)
	require.Zero(t, code)
	for _, text := range []string{"why the first wins", "the configuration's own plan takes ", "how sure: proved", "settings of plan 1, ", "\n  --set parallel.tensor="} {
		require.Contains(t, stdout, text)
	}
}

// With --out a search writes a configuration of every plan. psim run predicts the plan's numbers from it,
// and from the settings that are printed, after the CONFIG and settings of the search.
func TestSearchPlanFiles(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("auto.toml", []byte(autoTimes), 0o644))
	require.NoError(t, os.WriteFile("machine.toml", []byte("[machine]\ndevice = \"h100-80gb-sxm\"\ndevices_per_node = 4\nnetwork = \"ib-ndr\"\nlink.latency = \"9us\"\n"), 0o644))
	require.NoError(t, os.WriteFile("mine.toml", []byte("[schedule]\nname = \"ddp\"\n[parallel]\ndata = 4\n[batch]\nglobal = 8\n[model]\npreset = \"gpt2\"\nlayers = 4\n[machine]\nfile = \"machine.toml\"\n"), 0o644))
	const experts = " --set model.preset=mixtral-8x7b --set model.layers=4 --set train.stack=torchtitan --set model.sequence_length=512"
	for i, search := range []struct{ config, flags string }{
		{"auto.toml", "--rows 9"},
		{"gpipe --set batch.global=4", "--rows 3"},
		{"gpipe", strings.TrimPrefix(fewPlans, "psim search gpipe")},
		{"gpipe --set machine.file=machine.toml", "--devices 8 --rows 4 --vary train.precision=bf16,fp16 --schedules 1f1b,ddp"},
		{"gpipe" + experts, "--devices 8 --rows 3 --vary train.recompute=none,full --schedules 1f1b --vary schedule.stages=4"},
		{"gpt2 --device h100-80gb-sxm --set batch.global=16", "--devices 8 --rows 3 --schedules ddp,1f1b"},
		{"mine.toml --set train.recompute=full", "--devices 8 --rows 3 --trainer megatron-te --schedules 1f1b --margin 20%"},
		{"mine.toml --set machine.memory_margin=0.3 --set model.layers=8", "--devices 2 --rows 3 --trainer any"},
	} {
		folder := fmt.Sprint("out", i)
		line := "psim search " + search.config + " " + search.flags
		_, stderr, code := psim(t, line+" --out "+folder)
		require.Zero(t, code, stderr)
		printed := map[int][]string{}
		if strings.Contains(line, "--devices") {
			var stdout string
			stdout, stderr, code = psim(t, line+" --settings all")
			require.Zero(t, code, stderr)
			for n := 1; ; n++ {
				_, flags, more := strings.Cut(stdout, fmt.Sprintf("settings of plan %d\n", n))
				if !more {
					break
				}
				flags, _, _ = strings.Cut(flags, "\n\n")
				flags, _, _ = strings.Cut(flags, "\nwarning: ")
				printed[n] = setsOf(flags)
			}
		}
		var saved struct {
			Plans []results.Result `json:"plans"`
		}
		require.NoError(t, json.Unmarshal([]byte(contents(t, folder)["plans.json"]), &saved))
		written, err := filepath.Glob(filepath.Join(folder, "plan-*.toml"))
		require.NoError(t, err)
		require.NotEmpty(t, written)
		for n := range written {
			again := runResult(t, fmt.Sprintf("%s/plan-%d.toml", folder, n+1))
			require.Equal(t, saved.Plans[n].StepTime, again.StepTime, line)
			require.Equal(t, saved.Plans[n].Ranks, again.Ranks, line)
			require.Equal(t, saved.Plans[n].Config, again.Config, line)
			if sets := printed[n+1]; len(printed) > 0 {
				require.NotEmpty(t, sets)
				require.Equal(t, again, runResult(t, search.config+" --set "+strings.Join(sets, " --set ")), line)
			}
		}
	}
	_, stderr, code := psim(t, fewPlans+" --rows 2 --out out2") // the further plans of the earlier search go
	require.Zero(t, code, stderr)
	left, err := filepath.Glob("out2/plan-*.toml")
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.NoError(t, os.Mkdir("mine", 0o755))
	require.NoError(t, os.WriteFile("mine/plan-2.toml", []byte("x"), 0o644))
	_, stderr, code = psim(t, fewPlans+" --out mine")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out mine: plan-2.toml was not written by psim; name another folder, or replace it with --overwrite\n", stderr)
}

// The text has a row for every layout, and the settings of the first plan or of all, which a shell takes
// as they stand; the JSON has every plan.
func TestSearchLayouts(t *testing.T) {
	userFolder(t)
	const line = "psim search gpipe --devices 8 --schedules ddp,1f1b --rows 12"
	stdout, stderr, code := psim(t, line+" --json")
	require.Zero(t, code, stderr)
	var found rankings.PlanRanking
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.Len(t, found.Plans, 12)
	layouts := map[rankings.PlanShape]int{}
	for _, plan := range found.Plans {
		layouts[plan.Plan.Layout()]++
	}
	require.Less(t, len(layouts), 6)
	stdout, _, code = psim(t, line)
	require.Zero(t, code)
	_, table, _ := strings.Cut(stdout, "\n\n")
	table, rest, _ := strings.Cut(table, "\n  a row is the best plan of a layout")
	require.Equal(t, len(layouts), strings.Count(table, "\n"), "and a heading")
	others := 0
	for _, n := range layouts {
		others += n - 1
		require.True(t, n == 1 || strings.Contains(table, fmt.Sprintf("  %d, to ", n-1)))
	}
	require.Equal(t, 12, len(layouts)+others)
	_, flags, _ := strings.Cut(rest, "settings of plan 1, for psim run and the like after this CONFIG, --device and --set (--settings all has every plan's)\n")
	require.Equal(t, found.Plans[0].Set, setsOf(flags))
	stdout, _, code = psim(t, line+" --settings all")
	require.Zero(t, code)
	for i, plan := range found.Plans {
		_, flags, _ := strings.Cut(stdout, fmt.Sprintf("settings of plan %d\n", i+1))
		flags, _, _ = strings.Cut(flags, "\n\n")
		require.Equal(t, plan.Set, setsOf(flags))
	}
	for text := range strings.Lines(rest) {
		require.Less(t, len(text), 130)
	}
}

// runResult returns what psim run gives for a CONFIG and flags, without names and warnings, which say what
// the configuration was read from.
func runResult(t *testing.T, config string) (r results.Result) {
	stdout, stderr, code := psim(t, "psim run "+config+" --json")
	require.Zero(t, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	r.Name, r.Warnings, r.Build, r.Simulation = "", nil, nil, nil
	return r
}

// setsOf reads the flags --set of lines that go on at a backslash.
func setsOf(lines string) []string {
	words := strings.Fields(strings.ReplaceAll(lines, "\\\n", ""))
	return slices.DeleteFunc(words, func(word string) bool { return word == "--set" })
}

// A search leaves as much memory free as psim run wants for a run that is not close, unless --margin
// or the configuration says otherwise.
func TestSearchMargin(t *testing.T) {
	userFolder(t)
	for line, margin := range map[string]float64{
		"":                                    0.13,
		" --set train.stack=megatron-te":      0.13,
		" --set machine.memory_margin=0.2":    0.2,
		" --margin 5%":                        0.05,
		" --margin 0% --set train.stack=none": 0,
		" --set machine.device=cpu-core --set machine.compute.memory=64GB":  0,
		" --vary train.stack=none,megatron-te":                              0.13,
		" --vary train.stack=megatron-2021,none --set train.stack=nanotron": 0.13,
	} {
		stdout, stderr, code := psim(t, "psim search gpipe --devices 2 --schedules ddp --fix batch.micro --rows 2 --json"+line)
		require.Zero(t, code, line+stderr)
		var found rankings.PlanRanking
		require.NoError(t, json.Unmarshal([]byte(stdout), &found))
		for _, plan := range found.Plans {
			require.InDelta(t, margin, plan.MemoryMargin, 1e-12, line)
			require.Equal(t, "fits", plan.MemoryVerdict, line)
		}
	}
}

// Merged shards equal one search, byte for byte.
func TestSearchShards(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, fewPlans+" --out whole --map tensor,stages")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "wrote pareto.png, map.png, plan-1.toml … plan-5.toml, points.csv, search.json, plans.json in whole\npsim: ")
	for _, shard := range []string{"1", "2", "3"} {
		_, stderr, code := psim(t, fewPlans+" --out parts --map tensor,stages --quiet --shard "+shard+"/3")
		require.Zero(t, code, stderr)
	}
	require.Equal(t, []string{"plans.json", "points.csv", "search.json"}, slices.Sorted(maps.Keys(contents(t, "parts/shard-1-of-3"))))
	_, stderr, code = psim(t, "psim merge parts/shard-1-of-3 parts/shard-3-of-3")
	require.Equal(t, exitFailed, code)
	require.Equal(t, "psim: 1 of 3 shards are missing\n  2/3\n", stderr)
	merged, stderr, code := psim(t, "psim merge parts --out merged --map tensor,stages --json")
	require.Zero(t, code, stderr)
	require.Equal(t, contents(t, "whole"), contents(t, "merged"))
	require.Contains(t, merged, `"evaluated"`)
	_, stderr, code = psim(t, "psim merge parts/shard-1-of-3 whole")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "whole: belongs to another search than parts/shard-1-of-3")
}

// A shard leaves the results of its plans to psim merge, which needs nothing but the shards. It has
// results where they are asked for, and then writes the same files.
func TestShardsArePredictedOnce(t *testing.T) {
	userFolder(t)
	text, stderr, code := psim(t, "psim show gpipe")
	require.Zero(t, code, stderr)
	require.NoError(t, os.Mkdir("there", 0o755))
	require.NoError(t, os.WriteFile("there/gpipe.toml", []byte(text), 0o644))
	search := strings.Replace(fewPlans, "gpipe", "there/gpipe.toml", 1) + " --quiet"
	_, stderr, code = psim(t, search+" --out whole")
	require.Zero(t, code, stderr)
	stdout, stderr, code := psim(t, search+" --out parts --shard 1/2")
	require.Zero(t, code, stderr)
	require.Regexp(t, "^the best plan of this shard takes [0-9.]+ ms; psim merge parts joins the shards, and predicts their best plans\n$", stdout)
	stdout, stderr, code = psim(t, search+" --out same --json --shard 1/2")
	require.Zero(t, code, stderr)
	require.Equal(t, contents(t, "parts/shard-1-of-2"), contents(t, "same/shard-1-of-2"))
	var found, saved rankings.PlanRanking
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.NoError(t, json.Unmarshal([]byte(contents(t, "parts/shard-1-of-2")["plans.json"]), &saved))
	require.NotEmpty(t, found.Plans)
	require.Len(t, saved.Plans, len(found.Plans))
	for i, plan := range found.Plans {
		require.NotEmpty(t, plan.Ranks)
		require.Equal(t, plan.Set, saved.Plans[i].Set)
		require.InDelta(t, plan.StepTime, saved.Plans[i].StepTime, 0)
	}
	_, stderr, code = psim(t, search+" --out parts --shard 2/2")
	require.Zero(t, code, stderr)
	require.NoError(t, os.RemoveAll("there"))
	_, stderr, code = psim(t, "psim merge parts --out merged")
	require.Zero(t, code, stderr)
	require.Equal(t, contents(t, "whole"), contents(t, "merged"))
	points := filepath.Join("parts", "shard-1-of-2", "points.csv")
	list := contents(t, "parts/shard-1-of-2")["points.csv"]
	require.NoError(t, os.Remove(filepath.Join("parts", "shard-1-of-2", ".psim.json")))
	require.NoError(t, os.WriteFile(points, []byte(list[:strings.LastIndex(strings.TrimSpace(list), "\n")+1]), 0o644))
	_, stderr, code = psim(t, "psim merge parts")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "the shards have other plans than their configuration")
}

// If nothing fits, the list of plans is empty, and the output says which changes would fit.
func TestSearchFindsNothing(t *testing.T) {
	userFolder(t)
	const line = "psim search gpipe --devices 2 --schedules 1f1b,ddp --margin 30% --set machine.compute.memory=1GB --vary batch.micro=1"
	stdout, stderr, code := psim(t, line+" --json")
	require.Equal(t, exitFailed, code)
	require.Equal(t, "psim: no plan fits in memory\n", stderr)
	var found rankings.PlanRanking
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.Contains(t, stdout, `"plans": []`)
	require.Zero(t, found.Evaluated)
	require.NotEmpty(t, found.WouldFit)
	require.Equal(t, []string{"--devices 8"}, found.WouldFit[len(found.WouldFit)-1].Flags)
	stdout, _, code = psim(t, "psim search tinyllama-1.1b --device rtx-4090 --devices 1 --set train.precision=fp32 --vary train.recompute=none")
	require.Equal(t, exitFailed, code)
	precision, devices := strings.Index(stdout, "\n  with --set train.precision=bf16: --set train.precision=bf16 --set "), strings.Index(stdout, "\n  with --devices 2: ")
	require.Positive(t, precision, stdout)
	require.Greater(t, devices, precision, "what needs no more devices comes first")
	stdout, stderr, code = psim(t, "psim search gpipe --devices 7 --vary parallel.tensor=3")
	require.Equal(t, exitFailed, code)
	require.Empty(t, stderr) // the table says it
	require.Contains(t, stdout, "no plan divides network, batch and devices as asked\n  no plan has parallel.tensor = 3\n  with no --vary: --set ")
	for line, want := range map[string]string{
		"psim search gpipe --devices 1000000":                                             "\n  with 1,000,000 devices parallel.data can be 100,000, 125,000, 200,000, 250,000 or 2 more numbers, but none of these divides batch.global = 32; set batch.global = 100000, or take 320 devices\n",
		"psim search gpipe --devices 13":                                                  "\n  with 13 devices parallel.data can be 13, but none of these divides batch.global = 32; set batch.global = 39, or take 8 devices\n",
		"psim search gpipe --devices 4 --vary schedule.virtual_stages=3 --schedules 1f1b": "\n  no plan has schedule.virtual_stages = 3, for instance with parallel.tensor = 1, schedule.stages = 2, parallel.data = 2, batch.micro = 1, schedule.name = 1f1b\n",
	} {
		stdout, _, code = psim(t, line)
		require.Equal(t, exitFailed, code)
		require.Contains(t, stdout, want)
	}
}

func TestSearchDevicesErrors(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.Mkdir("mine", 0o755))
	require.NoError(t, os.WriteFile(filepath.Join("mine", "points.csv"), []byte("x"), 0o644))
	const apart = "schedule = {name = \"1f1b\", stages = 4, microbatches = 8}\nmodel = {preset = \"gpt2\"}\nbatch.global = 32\ntrain.precision = \"bf16\"\n[machine]\ndevice = \"a100-80gb-sxm\"\ndevices_per_node = 8\n"
	require.NoError(t, os.WriteFile("apart.toml", []byte(apart), 0o644))
	for line, want := range map[string]string{
		"psim search apart.toml --devices 16":                                                          "psim: apart.toml:5:2: machine.network: 16 devices take 2 nodes (devices_per_node = 8), and no network joins them; name one",
		"psim search apart.toml --devices 16 --json":                                                   "psim: apart.toml:5:2: machine.network: 16 devices take 2 nodes (devices_per_node = 8), and no network joins them; name one",
		"psim search apart.toml --devices 16 --set machine.network.latency=5us":                        "psim: --set machine.network.latency=5us: machine.network: bandwidth is missing",
		"psim search apart.toml --devices 16 --vary machine.network.latency=5us":                       "psim: --vary machine.network.latency=5us: machine.network: bandwidth is missing",
		"psim search gpipe --devices 4 --vary machine.memory_margin=0.97,0.98":                         "--fix or --vary machine.memory_margin: a search has one margin; set it by --margin",
		"psim search gpipe --devices 4 --fix machine.memory_margin":                                    "--fix or --vary machine.memory_margin: a search has one margin; set it by --margin",
		"psim search gpipe --devices 4 --trainer torchtitan --set train.stack=megatron-te":             `--trainer torchtitan and train.stack = "megatron-te" are two programs`,
		"psim search gpipe --devices 4 --trainer torchtitan --vary train.stack=torchtitan,megatron-te": `--trainer torchtitan and train.stack = "megatron-te" are two programs`,
		"psim search gpipe --devices 4 --fix schedule":                                                 "--fix schedule: is a section, not a key",
		"psim search gpipe --devices 4 --fix machine.compute":                                          "--fix machine.compute: is a section, not a key",
		"psim search gpipe --devices 4 --fix machine.link.foo":                                         "--fix machine.link.foo: is not a key of a configuration",
		"psim search gpipe --devices 4 --fix schedule.stages=2":                                        "--fix schedule.stages=2: takes a key without a value; to fix that value, use --set schedule.stages=2 --fix schedule.stages",
		"psim search gpipe --trainer any":                                                              "--trainer: needs --devices",
		"psim search gpipe --devices 4,0":                                                              "--devices 0: must be at least 1",
		"psim search gpipe --devices 8,4,8":                                                            "--devices: 8 is given twice",
		"psim search gpipe --devices 4 --schedules ddp,1f1b,ddp":                                       "--schedules: ddp is given twice",
		"psim search gpipe --devices 8,4 --shard 1/2 --out x":                                          "--shard: needs one number of --devices",
		"psim search gpipe --devices 8,4 --csv --json":                                                 "--json and --csv cannot be combined",
		"psim search gpipe --csv":                                                                      "--csv: needs --devices",
		"psim search apart.toml --devices 4,16":                                                        "psim: apart.toml:5:2: machine.network: 16 devices take 2 nodes",
		"psim search gpipe --settings all":                                                             "--settings: needs --devices",
		"psim search gpipe --devices 4 --settings x":                                                   `--settings: unknown name "x"; use first, all`,
		"psim search gpipe --margin 5%":                                                                "--margin: needs --devices",
		"psim search gpipe --devices 4 --schedules=":                                                   "--schedules: names no schedule; use some of model-parallel, gpipe",
		"psim search gpipe --devices 0":                                                                "--devices 0: must be at least 1",
		"psim search llama3-70b --devices 9223372036854775807":                                         "9223372036854775807 devices: there may be at most 2147483647",
		"psim search gpipe --devices x":                                                                "--devices x: must be whole numbers, such as",
		"psim search gpipe --devices 4 --rows 0":                                                       "--rows 0: must be at least 1",
		"psim search gpipe --devices 4 --trainer megatron":                                             `--trainer: unknown name "megatron"; use any, megatron-2021`,
		"psim search gpipe --devices 4 --schedules 1f1b,1f2b":                                          `--schedules: unknown name "1f2b"`,
		"psim search gpipe --devices 4 --fix parallel.tenso":                                           "did you mean parallel.tensor?",
		"psim search gpipe --devices 4 --margin 10":                                                    "--margin 10: must be a share of the memory",
		"psim search gpipe --devices 4 --vary parallel.tensor=x":                                       "--vary parallel.tensor=x: parallel.tensor: must be an integer",
		"psim search gpipe --devices 4 --vary tensor":                                                  "--vary tensor: must be KEY=V1,V2…",
		"psim search gpipe --devices 4 --fix batch.micro --vary batch.micro=1":                         "--fix batch.micro and --vary batch.micro: give one of the two",
		"psim search gpipe --devices 4 --fix train.stack --vary train.stack=none":                      "--fix train.stack and --vary train.stack: give one of the two",
		"psim search gpipe --devices 4 --vary train.stack=none --vary train.stack=nanotron":            "--vary train.stack is given twice",
		"psim search gpipe --devices 4 --fix schedule.name --schedules 1f1b":                           "--schedules with --fix or --vary schedule.name",
		"psim search gpipe --devices 4 --shard 1/2":                                                    "--out is missing: --shard needs it",
		"psim search gpipe --devices 4 --shard 3/2 --out x":                                            "--shard 3/2: no such shard",
		"psim search gpipe --devices 4 --map tensor":                                                   "--map tensor: a map needs two dimensions",
		"psim search gpipe --devices 4 --out mine":                                                     "--out mine: points.csv was not written by psim",
		"psim search course-timeline --devices 4":                                                      "need a [model], which can be divided",
		"psim search ring-allreduce --devices 4":                                                       "need a [model], which can be divided",
	} {
		stdout, stderr, code := psim(t, line)
		require.Equal(t, exitUsage, code, line)
		require.Empty(t, stdout, line)
		require.Contains(t, strings.Split(stderr, "\n")[0], want, line)
	}
}

// Settings that a search keeps anyway may be fixed, too, and the link between nodes may vary.
func TestSearchDevicesKeeps(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, fewPlans+" --json --fix machine.link.latency --fix schedule.partition")
	require.Zero(t, code, stderr)
	const apart = "schedule = {name = \"ddp\"}\nmodel = {preset = \"gpt2\"}\nbatch.global = 32\ntrain.precision = \"bf16\"\nmachine = {device = \"a100-80gb-sxm\", devices_per_node = 2}\n"
	require.NoError(t, os.WriteFile("apart.toml", []byte(apart), 0o644))
	const line = "psim search apart.toml --devices 4 --schedules ddp --vary batch.micro=4 --rows 1 --json"
	for _, vary := range []string{"machine.network=ib-hdr", "machine.devices_per_node=2,4"} {
		stdout, stderr, code := psim(t, line+" --vary "+vary)
		require.Zero(t, code, stderr)
		key, _, _ := strings.Cut(vary, "=")
		require.Contains(t, stdout, key)
		require.NotContains(t, stdout, `"not possible"`)
	}
	stdout, _, code := psim(t, strings.TrimSuffix(line, " --json")+" --vary machine.network=ib-hdr --set machine.compute.memory=100MB")
	require.Equal(t, exitFailed, code)
	require.NotContains(t, stdout, "machine.network is not given")
}

// An interrupted search prints the plans found so far, and their gap.
func TestSearchDevicesInterrupted(t *testing.T) {
	userFolder(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr strings.Builder
	require.Equal(t, exitFailed, Run(ctx, strings.Fields("search gpipe --devices 4 --json"), &stdout, &stderr))
	require.Equal(t, "psim: interrupted\n", stderr.String())
	var found rankings.PlanRanking
	require.NoError(t, json.Unmarshal([]byte(stdout.String()), &found))
	require.True(t, found.Partial)
	require.Equal(t, 1.0, found.Gap)
}
