package reports_test

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/golden"
	"psim/internal/ordertest"
	"psim/reports"
	"psim/results"
	"psim/results/tracecsv"
	"psim/schedules/graph"
	"psim/sim"
)

// measure makes a trace that looks measured: every task takes a while to start
// and some nanoseconds more or less than its cost, times a factor.
func measure(t testing.TB, g *graph.Graph, c times, factor float64) *graph.Trace {
	t.Helper()
	random := func(task *graph.Task) *rand.Rand {
		return rand.New(rand.NewPCG(uint64(task.Rank)<<8|uint64(task.Kind), uint64(task.Microbatch)<<32|uint64(task.Stage)<<8|uint64(task.Part)))
	}
	launch := func(task *graph.Task) time.Duration {
		return time.Duration((0.02 + 0.08*random(task).Float64()) * float64(c.f) * factor)
	}
	costs := c.costs(g.Ranks())
	noisy := graph.Costs{Persistent: costs.Persistent, ByMicrobatch: true, Task: func(task *graph.Task) graph.Cost {
		cost := costs.Task(task)
		cost.Busy = launch(task) + time.Duration(float64(cost.Busy)*factor*(0.95+0.1*random(task).Float64()))
		return cost
	}}
	simulated, err := sim.Run(g, noisy)
	require.NoError(t, err)
	trace := ordertest.Measured(simulated)
	trace.Memory = ordertest.Memory(simulated)
	trace.Ready = make([]time.Duration, len(trace.Spans))
	for i, task := range g.Tasks() {
		trace.Ready[i] = trace.Spans[i].Start
		trace.Spans[i].Start += launch(&task)
	}
	return trace
}

// measured is a measured result of three steps with everything in it, beside the
// trace of that of the median time and the prediction's.
func measured(t testing.TB, name string, p, m int) (r results.Result, trace, predicted *graph.Trace) {
	c := unit()
	c.send, c.optimizer = ms, 5*ms
	predicted = run(t, name, p, m, c)
	var steps []*graph.Trace
	for _, factor := range []float64{1.08, 1.03, 1.04} {
		steps = append(steps, measure(t, predicted.Graph, c, factor))
	}
	before := result(predicted, nil)
	r, trace = results.NewMeasured(steps, info(predicted.Graph, nil))
	r.Predicted = &before
	weights, outputs, loss, tokens := 1.25e-7, 3e-8, 10.75, 61234.0
	r.Backend, r.Devices, r.TimesComparable, r.HeapGrowth = "go", p, true, 3.25e9
	r.Checks = &results.Checks{Weights: &weights, Outputs: &outputs, LossFirst: &loss, LossLast: &loss, Passed: true}
	r.UnwaitedTokens = &tokens
	return r, trace, predicted
}

func TestMeasuredResult(t *testing.T) {
	r, _, _ := measured(t, "gpipe", 2, 4)
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	golden.Equal(t, "measured.json", b.Bytes())
	again, err := results.ReadResult(&b)
	require.NoError(t, err)
	require.Equal(t, r, again)
	for _, rank := range r.Ranks {
		require.Positive(t, *rank.Dispatch)
		require.InDelta(t, rank.Idle, *rank.Dispatch+*rank.Waiting, 1e-12)
	}
	b.Reset()
	require.NoError(t, reports.WriteResultCSV(&b, r))
	golden.Equal(t, "measured.csv", b.Bytes())
	b.Reset()
	require.NoError(t, reports.WriteResult(&b, r))
	golden.Equal(t, "table-steps.txt", b.Bytes())
}

// TestMeasuredContract checks the names that scripts rely on.
func TestMeasuredContract(t *testing.T) {
	r, _, _ := measured(t, "gpipe", 2, 4)
	zero := 0.0
	r.Checks.Gradients, r.Checks.LossDifference, r.UnwaitedSamples, r.Partial = &zero, &zero, &zero, true
	r.Runs = []results.Result{result(run(t, "1f1b", 1, 1, unit()), nil)}
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	var object map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &object))
	for _, key := range strings.Fields(`steps step_time_mean_s step_time_std_s step_time_median_s disturbed runs_made checks backend devices times_comparable
		heap_growth_bytes course_tokens_per_s course_samples_per_s partial runs predicted`) {
		require.Contains(t, object, key)
	}
	for _, key := range strings.Fields("weights outputs gradients loss_first loss_last loss_difference passed") {
		require.Contains(t, object["checks"], key)
	}
	for _, key := range []string{"dispatch_s", "waiting_s"} {
		require.Contains(t, object["ranks"].([]any)[0], key)
		require.NotContains(t, object["predicted"].(map[string]any)["ranks"].([]any)[0], key)
	}
}

func TestNewMeasurement(t *testing.T) {
	m := results.NewMeasurement(2*time.Second, 4*time.Second, 4*time.Second, 6*time.Second)
	require.Equal(t, []float64{2, 4, 4, 6}, m.Steps)
	require.InDelta(t, 4, m.StepTimeMean, 1e-12)
	require.InDelta(t, math.Sqrt(8.0/3), m.StepTimeStd, 1e-12)
	require.InDelta(t, 4, m.StepTimeMedian, 1e-12)
	require.InDelta(t, 3, results.NewMeasurement(time.Second, 5*time.Second).StepTimeMedian, 1e-12)
	require.Zero(t, results.NewMeasurement(time.Second).StepTimeStd)
	require.Equal(t, &results.Measurement{Steps: []float64{}}, results.NewMeasurement())
}

// A result of before the step time was the mean is read as one whose step time and
// throughput are of all steps; the shares of its ranks stay those of the step that
// it shows, and its trace goes with it.
func TestResultOfTheMedianStep(t *testing.T) {
	data, err := os.ReadFile("testdata/measured-median.json")
	require.NoError(t, err)
	r, err := results.ReadResult(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, []float64{0.169270963, 0.170270963, 0.174270963}, r.Steps)
	require.Equal(t, 0.171270963, r.StepTime)
	require.Equal(t, 0.170270963, r.StepTimeMedian)
	require.InDelta(t, 32/0.171270963, r.Throughput.Samples, 1e-9)
	require.InDelta(t, 32*128/0.171270963, r.Throughput.Tokens, 1e-9)
	require.Equal(t, 0.123135033, r.Ranks[0].Compute)
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	again, err := results.ReadResult(&b)
	require.NoError(t, err)
	require.Equal(t, r, again, "it is read so once")

	_, trace, _ := measured(t, "gpipe", 2, 4)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "result.json"), data, 0o644))
	b.Reset()
	require.NoError(t, tracecsv.WriteTraceCSV(&b, trace))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "trace.csv"), b.Bytes(), 0o644))
	run, err := results.Load(folder)
	require.NoError(t, err)
	require.Equal(t, trace.End(), run.Trace.End())
}

// The times of a measured result are means over its steps, and add up to the step
// time; the throughput is all samples over all time.
func TestMeasuredMeans(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := run(t, "1f1b", 2, 3, unit()).Graph
		var steps []*graph.Trace
		var all time.Duration
		for range rapid.IntRange(1, 5).Draw(rt, "steps") {
			steps = append(steps, measure(t, g, unit(), rapid.Float64Range(0.5, 4).Draw(rt, "factor")))
			all += steps[len(steps)-1].End()
		}
		r, shown := results.NewMeasured(steps, info(g, nil))
		n := float64(len(steps))
		require.InDelta(rt, all.Seconds()/n, r.StepTime, 1e-9)
		require.Equal(rt, r.StepTime, r.StepTimeMean)
		require.InEpsilon(rt, 32*n/all.Seconds(), r.Throughput.Samples, 1e-7)
		for _, rank := range r.Ranks {
			require.InDelta(rt, r.StepTime, rank.Compute+rank.ExposedCommunication+rank.Optimizer+rank.Idle, 5e-9)
		}
		shorter := 0
		for _, step := range steps {
			if step.End() < shown.End() {
				shorter++
			}
		}
		require.LessOrEqual(rt, shorter, (len(steps)-1)/2, "the step shown is that of the median time")
	})
}

// TestDivergedResult checks that a run that ended in no numbers can be written,
// read and printed.
func TestDivergedResult(t *testing.T) {
	r, _, _ := measured(t, "gpipe", 2, 4)
	nan, infinite := math.NaN(), math.Inf(1)
	r.Checks = &results.Checks{Weights: &nan, LossFirst: &infinite, LossLast: &nan}
	r.Losses = []float64{2.5, nan, infinite}
	r.Runs = []results.Result{r}
	var b, table bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	require.Regexp(t, `"losses": \[\s+2.5,\s+null,\s+null\s+\]`, b.String())
	require.True(t, math.IsNaN(*r.Checks.Weights), "writing changes nothing")
	require.Contains(t, b.String(), `"diverged": true`)
	require.Regexp(t, `"checks": \{\s+"weights": null,\s+"loss_first": null,\s+"loss_last": null,\s+"passed": false\s+\}`, b.String())
	require.NotContains(t, b.String(), "e+308")
	older := strings.ReplaceAll(strings.ReplaceAll(b.String(), `"diverged": true,`, ""), "null", "1.7976931348623157e+308")
	again, err := results.ReadResult(strings.NewReader(older))
	require.NoError(t, err)
	require.True(t, math.IsNaN(*again.Runs[0].Checks.LossFirst))
	var rewritten bytes.Buffer
	require.NoError(t, again.WriteJSON(&rewritten))
	require.Equal(t, b.String(), rewritten.String())
	again, err = results.ReadResult(&b)
	require.NoError(t, err)
	require.True(t, again.Runs[0].Diverged && math.IsNaN(*again.Runs[0].Checks.LossFirst))
	require.NoError(t, reports.WriteResult(&table, again))
	require.Contains(t, table.String(), "FAILED; off the unsplit run at most: weights by no number; loss no number → no number")
}

func TestWorstChecks(t *testing.T) {
	one, two, nan := 1.0, 2.0, math.NaN()
	a := results.Checks{Weights: &one, Outputs: &nan, LossFirst: &one, Passed: true}
	b := results.Checks{Weights: &two, Outputs: &two, Gradients: &one, LossFirst: &two}
	worst := a.Worst(b)
	require.Equal(t, []*float64{&two, &one, &one}, []*float64{worst.Weights, worst.Gradients, worst.LossFirst})
	require.True(t, math.IsNaN(*worst.Outputs))
	require.True(t, math.IsNaN(*b.Worst(a).Outputs))
	require.False(t, worst.Passed)
	require.True(t, a.Worst(a).Passed)
}

// TestRunsTable prints several modes in one result.
func TestRunsTable(t *testing.T) {
	r, _, _ := measured(t, "1f1b", 2, 4)
	gpipe, _, _ := measured(t, "gpipe", 2, 4)
	gpipe.Name, gpipe.Checks.Passed, gpipe.Partial = "gpipe", false, true
	gpipe.Measurement.TimesComparable, gpipe.HeapGrowth = false, -1e6
	r.Runs = []results.Result{r, gpipe, result(run(t, "1f1b", 2, 2, unit()), nil)}
	var b bytes.Buffer
	require.NoError(t, reports.WriteResult(&b, r))
	require.NoError(t, reports.WriteResult(&b, gpipe))
	golden.Equal(t, "table-runs.txt", b.Bytes())

	b.Reset()
	require.NoError(t, reports.WriteResultCSV(&b, r))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 1+3*2, "a row for every rank of every run")
	require.Regexp(t, `^rank,.*,schedule$`, lines[0])
	require.Regexp(t, `^0,.*,1f1b$`, lines[1])
	require.Regexp(t, `^1,.*,gpipe$`, lines[4])
	for _, line := range lines {
		require.Equal(t, strings.Count(lines[0], ","), strings.Count(line, ","))
	}
}

func TestReadRunsErrors(t *testing.T) {
	for input, want := range map[string]string{
		`{"kind": "measured", "ranks": [{}], "predicted": {"kind": "measured"}}`: "predicted: ranks is empty",
		`{"kind": "measured", "ranks": [{}], "runs": [{"kind": "x"}]}`:           `runs[0]: kind is "x"`,
		`{"kind": "measured", "ranks": [{}], "steps": [1, -1]}`:                  "steps, or their mean, deviation or median, holds a time that is negative",
	} {
		_, err := results.ReadResult(strings.NewReader(input))
		require.ErrorContains(t, err, want)
	}
}

// What XLA's programs take beyond what a device counts is in a line, for the rank with most of it, and in that of
// the checks, which also says what they do not judge.
func TestNotCounted(t *testing.T) {
	r, _, _ := measured(t, "gpipe", 2, 2)
	text := func() string {
		var b strings.Builder
		require.NoError(t, reports.WriteResult(&b, r))
		return b.String()
	}
	require.NotContains(t, text(), "not counted", "the Go backend does not know")
	r.Compiled = []results.CompiledProgram{
		{Rank: 0, Program: "F of stage 0", Outputs: 3e6, Temporaries: 1e6, Unseen: 1e6},
		{Rank: 1, Program: "B of stage 1", Outputs: 2e6, Temporaries: 5e6, Unseen: 5.5e6},
	}
	require.Contains(t, text(), "not counted    5.50 MB that rank 1 takes for a moment: "+
		"B of stage 1 has 2.00 MB of results and 5.00 MB of temporaries\n")
	r.Checks = &results.Checks{Passed: true, LeftOut: 3, LeftOutLargest: new(2e-5), LeftOutTensors: []string{"k.bias"}}
	require.Contains(t, text(), "passed; not judged: 3 weights in 1 tensor with next to no gradient "+
		"(Adam makes whole steps of those), off by 2e-05 at most; memory that the ledger does not see: 5.50 MB\n")
}
