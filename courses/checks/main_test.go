package main

import (
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/results"
	"psim/schedules/graph"
)

// Devices share one core, so that psim does not probe how steady the machine is: no check
// reads a time.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// The eight checks pass with a small VGG of the same layers. Its first loss is that of ten
// equally likely classes.
func TestSmall(t *testing.T) {
	var told []string
	devices := backend.Options{Backend: "go", Oversubscribe: true}
	for preset, ways := range map[string]string{"vgg-mini": "ddp fsdp", "vgg-mini-pipeline": "model pipeline"} {
		for _, way := range strings.Fields(ways) {
			for _, rate := range []string{"1e-2", "1e-3"} {
				r := row{config: "vgg16-cpu-" + way, rate: rate}
				require.NoError(t, r.check(t.Context(), devices, func(s string) { told = append(told, s) }, []string{"model.preset=" + preset, "batch.global=16"}))
				require.True(t, r.Passed)
				require.InEpsilon(t, math.Log(10), *r.LossFirst, 0.01)
				require.Less(t, *r.LossLast, *r.LossFirst)
				if way != "model" {
					require.Positive(t, *r.Gradients, "a sum in another order, as two workers make it")
				}
			}
		}
	}
	require.Contains(t, told, "vgg16-cpu-fsdp at 1e-3: ddp: unsplit, to compare with: step 3 of 3")
}

// A check that fails is an error, and so is a check that cannot run.
func TestFailing(t *testing.T) {
	devices := backend.Options{Backend: "go", Oversubscribe: true}
	r := row{config: "vgg16-cpu-ddp", rate: "500"}
	require.ErrorContains(t, r.check(t.Context(), devices, func(string) {}, []string{"model.preset=vgg-mini", "batch.global=16"}), "a check failed: ")
	_, err := run(t.Context(), devices, func(string) {}, "model.preset=gpt3")
	require.ErrorContains(t, err, "vgg16-cpu-pipeline at 1e-3: ")
}

// The homework's tests pass with a small GPT of the same form.
func TestHomework(t *testing.T) {
	r := runner{
		devices: backend.Options{Backend: "go", Oversubscribe: true}, tell: func(string) {},
		network: []string{"model.layers=2", "model.hidden=16", "model.heads=2", "model.vocab=64", "model.sequence_length=8", "batch.global=4"},
	}
	var b strings.Builder
	require.NoError(t, homework(t.Context(), r, &b))
	require.Equal(t, 4, strings.Count(b.String(), "  true\n"), b.String())
	r.network = append(r.network, "model.hidden=17")
	err := homework(t.Context(), r, &b)
	require.ErrorContains(t, err, "a4_1_2: ")
	require.NotContains(t, err.Error(), "a4_1_1")
	require.Equal(t, 7, strings.Count(b.String(), "  true\n"), b.String())
}

func TestCheckShards(t *testing.T) {
	require.NoError(t, checkShards(4, [][]int{{0, 3}, {2, 1}}))
	require.EqualError(t, checkShards(4, [][]int{{0, 3}, {2, 3}}), "sample 1 is in 0 shards")
	require.EqualError(t, checkShards(4, [][]int{{0, 1, 3}, {2}}), "shard 0 has 3 samples")
}

// Cycles that are wrong or too few are not those that the homework lists.
func TestCycles(t *testing.T) {
	got, err := cyclesOf(graph.Shape{Ranks: 2, Microbatches: 1})
	require.NoError(t, err)
	require.Equal(t, "(0,0) | (0,1)", got)
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"hw5"}, {"hw4", "cs1390"}} {
		require.ErrorContains(t, runner{}.check(t.Context(), args, nil), "name one course, cs1390 or hw4")
	}
}

// A first loss that is not that of ten equally likely classes fails, and so does one that grows.
func TestLearns(t *testing.T) {
	losses := func(first, last float64) *row {
		return &row{Checks: results.Checks{LossFirst: &first, LossLast: &last}}
	}
	require.NoError(t, losses(2.303, 2.3).learns())
	require.ErrorContains(t, losses(2.2, 2.1).learns(), "within 1 %")
	require.ErrorContains(t, losses(2.303, 2.304).learns(), "and fall")
	require.Error(t, losses(math.NaN(), 1).learns())
}

// The document lists what is checked, and no digits of a processor.
func TestDocument(t *testing.T) {
	saved, err := os.ReadFile("../../docs/course-checks.md")
	require.NoError(t, err)
	for _, mode := range []string{"ddp", "fsdp", "model", "pipeline"} {
		require.Contains(t, string(saved), "\n| vgg16-cpu-"+mode+" | 1e-2, 1e-3 | 1e-5 | 1e-4 | 1e-5 |\n")
	}
	for _, test := range homeworkTests() {
		require.Contains(t, string(saved), "\n| "+test.name+" | "+test.compares+" |")
	}
	require.Contains(t, string(saved), "--learning-rate RATE --warmup 1 --steps 1 --repeats 1 --strided --check weights,output,grads\n")
	require.Contains(t, string(saved), "--set batch.global=64 ")
	require.NotRegexp(t, `\d\.\de-\d|EPYC|go1\.`, string(saved))
}
