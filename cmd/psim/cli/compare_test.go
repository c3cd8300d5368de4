package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/results"
	"psim/results/compare"
	"psim/results/tracecsv"
	"psim/schedules/graph"
)

// saveMeasured writes what an execution would leave in a folder: a prediction,
// and a measurement in which everything takes a tenth longer, and every task a
// millisecond to start.
func saveMeasured(t *testing.T, folder string) {
	t.Helper()
	_, stderr, code := psim(t, "psim run gpipe --out "+folder+"/predicted")
	require.Zero(t, code, stderr)
	prediction, err := results.Load(folder + "/predicted")
	require.NoError(t, err)
	trace := *prediction.Trace
	for i, span := range prediction.Trace.Spans {
		ready := span.Start * 11 / 10
		trace.Ready = append(trace.Ready, ready)
		trace.Spans[i] = graph.Span{Start: min(ready+time.Millisecond, span.End*11/10), End: span.End * 11 / 10}
	}
	before := prediction.Result
	r := results.NewResult(results.Measured, &trace, graph.Summarize(&trace), results.Info{
		Name: before.Name, Schedule: before.Schedule, Stages: before.Stages, VirtualStages: before.VirtualStages,
		Microbatches: before.Microbatches, DataParallel: before.DataParallel, TensorParallel: before.TensorParallel,
	})
	r.Measurement, r.Predicted = results.NewMeasurement(trace.End()), &before
	r.Backend, r.Devices, r.TimesComparable = "go", 4, true
	var result, rows bytes.Buffer
	require.NoError(t, r.WriteJSON(&result))
	require.NoError(t, tracecsv.WriteTraceCSV(&rows, &trace))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "result.json"), result.Bytes(), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "trace.csv"), rows.Bytes(), 0o644))
}

// The error for an example says where its result is.
func TestCompareExamples(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, "psim compare gpipe 1f1b")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "psim: gpipe: no such file or directory; a result is a folder")
	_, stderr, code = psim(t, "psim run gpipe")
	require.Zero(t, code, stderr)
	_, stderr, code = psim(t, "psim compare gpipe 1f1b")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: gpipe: no such file or directory; did you mean out/gpipe?\n", stderr)
}

// The error for a sweep names the verb that reads it.
func TestCompareSweep(t *testing.T) {
	userFolder(t)
	_, stderr, code := psim(t, "psim sweep gpipe --vary schedule.stages=2,4 --out s")
	require.Zero(t, code, stderr)
	_, stderr, code = psim(t, "psim compare s s")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: s: holds a sweep rather than a result; psim plot sweep and psim plot heatmap take it\n", stderr)
}

// TestCompare checks what scripts rely on, and that a folder by itself is
// compared with the prediction in it.
func TestCompare(t *testing.T) {
	userFolder(t)
	saveMeasured(t, "m")
	table, stderr, code := psim(t, "psim compare m")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	require.Contains(t, table, "gpipe: measured (B) against predicted (A)\n")
	two, _, code := psim(t, "psim compare m/predicted/result.json m")
	require.Zero(t, code)
	require.Equal(t, table, two)

	stdout, stderr, code := psim(t, "psim compare m/predicted m --json")
	require.Zero(t, code, stderr)
	var c compare.Comparison
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.InDelta(t, 0.1, c.StepTimeDifference, 1e-6)
	require.Positive(t, c.ByPart.Dispatch)
	require.InDelta(t, c.StepTimeDifference, c.ByPart.Compute+c.ByPart.Communication+c.ByPart.Waiting+c.ByPart.Dispatch, 1e-12)
	require.Len(t, c.ByRank, 4)
	require.Zero(t, c.Tasks.OnlyA+c.Tasks.OnlyB)
	require.Empty(t, c.Warnings)

	stdout, _, code = psim(t, "psim compare m --csv")
	require.Zero(t, code)
	require.True(t, strings.HasPrefix(stdout, "of,item,quantity,a,b,difference\nstep,,time_s,"), stdout)

	stdout, _, code = psim(t, "psim compare m m --json")
	require.Zero(t, code)
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.Zero(t, c.StepTimeDifference)
	require.Equal(t, compare.Parts{}, c.ByPart)
}

// Homework 4's pipeline has a shorter step than its data parallelism, and less than half of the
// throughput, which comes first: it trains on a quarter of the samples.
func TestCompareHomework(t *testing.T) {
	userFolder(t)
	for _, name := range []string{"data-parallel", "pipeline"} {
		_, stderr, code := psim(t, "psim run gpt2-4090d-"+name+" --quiet --out "+name)
		require.Zero(t, code, stderr)
	}
	stdout, stderr, code := psim(t, "psim compare data-parallel pipeline --out c")
	require.Zero(t, code, stderr)
	lines := strings.Split(stdout, "\n")
	require.Regexp(t, `^  throughput +354 samples/s +137 samples/s +−61.3 %$`, lines[2])
	require.Regexp(t, `^  step time .* −35.5 %$`, lines[3])
	require.Contains(t, stdout, "warning: the steps differ in work: A trains on 128 samples, B on 32; ")
	require.Contains(t, contents(t, "c")["comparison.json"], `"work_differs": [`)
}

// TestCompareFiles writes the files of a comparison, and does not replace other files.
func TestCompareFiles(t *testing.T) {
	userFolder(t)
	saveMeasured(t, "m")
	printed, stderr, code := psim(t, "psim compare m --out c --json")
	require.Zero(t, code, stderr)
	require.Equal(t, "wrote compare.png, comparison.json in c\n", stderr)
	files := contents(t, "c")
	require.Equal(t, printed, files["comparison.json"])
	_, stderr, code = psim(t, "psim plot compare m --out p.png")
	require.Zero(t, code, stderr)
	require.True(t, files["compare.png"] == contents(t, ".")["p.png"], "both verbs draw the same picture")
	_, stderr, code = psim(t, "psim plot compare m/predicted m --out p.svg")
	require.Zero(t, code, stderr)
	require.Contains(t, contents(t, ".")["p.svg"], "measured against predicted: step +10.0 %")

	require.NoError(t, os.Remove("m/predicted/trace.csv"))
	_, stderr, code = psim(t, "psim compare m --out c")
	require.Zero(t, code, stderr)
	require.Equal(t, "wrote comparison.json in c\n", stderr)
	require.NotContains(t, contents(t, "c"), "compare.png", "the picture of the earlier comparison is gone")

	require.NoError(t, os.Mkdir("mine", 0o755))
	require.NoError(t, os.WriteFile("mine/compare.png", []byte("mine"), 0o644))
	_, stderr, code = psim(t, "psim compare m --out mine")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --out mine: compare.png was not written by psim; name another folder, or replace it with --overwrite\n", stderr)
	require.Equal(t, map[string]string{"compare.png": "mine"}, contents(t, "mine"))
}

// TestComparePrediction finds the prediction of a measured result, or reports why it cannot be used.
func TestComparePrediction(t *testing.T) {
	userFolder(t)
	saveMeasured(t, "m")
	refused := func(line, want string) {
		t.Helper()
		stdout, stderr, code := psim(t, line)
		require.Equal(t, exitUsage, code, stderr)
		require.Empty(t, stdout)
		require.Equal(t, want, stderr)
	}
	refused("psim compare m/predicted", "psim: m/predicted: is a prediction, so there is nothing to compare it with; name two results: psim compare A B\n")

	_, stderr, code := psim(t, "psim run 1f1b --set schedule.microbatches=5 --set batch.global=10 --out m/predicted")
	require.Zero(t, code, stderr)
	refused("psim compare m", "psim: m/predicted: is not the prediction of m, whose result.json holds another one; name two results: psim compare A B\n")
	stdout, stderr, code := psim(t, "psim compare m/predicted m")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "warning: the graphs differ: A is 1f1b with P = 4, M = 5, B is gpipe with P = 4, M = 8\n")

	require.NoError(t, os.RemoveAll("m/predicted"))
	stdout, stderr, code = psim(t, "psim compare m/result.json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "warning: A has no trace, so that no tasks are compared\n")
	refused("psim plot compare m", "psim: m: its prediction has no trace.csv, so there is nothing to draw\n")

	require.NoError(t, os.WriteFile("m/trace.csv", []byte("rank\n"), 0o644))
	_, stderr, code = psim(t, "psim compare m m")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "psim: m/trace.csv: line 1: the header is")
}

// TestForeignTrace refuses a trace of another result.
func TestForeignTrace(t *testing.T) {
	userFolder(t)
	saveMeasured(t, "m")
	data, err := os.ReadFile("m/trace.csv")
	require.NoError(t, err)
	rows := strings.SplitAfter(string(data), "\n")
	last := strings.Split(rows[len(rows)-2], ",") // ends the step, or comes before what does
	last[6] = "9223372036854775807"
	for text, want := range map[string]string{
		strings.Join(rows[:len(rows)-2], ""):                           "tasks and result.json",
		string(data) + rows[len(rows)-2]:                               "tasks and result.json",
		strings.Join(rows[:len(rows)-2], "") + strings.Join(last, ","): "the step ends after 9.223372036854776e+09 s in trace.csv",
		strings.Join(rows[:len(rows)/2], ""):                           "ranks and result.json 4",
	} {
		require.NoError(t, os.WriteFile("m/trace.csv", []byte(text), 0o644))
		for _, line := range []string{"psim compare m", "psim compare m/predicted m --json", "psim plot compare m", "psim plot timeline m"} {
			stdout, stderr, code := psim(t, line)
			require.Equal(t, exitUsage, code, line)
			require.Empty(t, stdout)
			require.Contains(t, stderr, "psim: m: ")
			require.Contains(t, stderr, want, line)
			require.Contains(t, stderr, "they are not of the same run", line)
		}
	}
}

// TestCompareLog: the log of a run stands next to the prediction of its plan, in either order.
func TestCompareLog(t *testing.T) {
	folder, err := filepath.Abs("../../../launch/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	_, stderr, code := psim(t, "psim run llama3-8b --set batch.global=4 --set batch.micro=4 --set model.sequence_length=2048 --device h100-80gb-sxm --out mine")
	require.Zero(t, code, stderr)
	log := folder + "/torchtitan.log"
	step := func(command string) (a, b float64) {
		t.Helper()
		stdout, stderr, code := psim(t, "psim compare --json "+command)
		require.Zero(t, code, stderr)
		require.Contains(t, stderr, "the log prints 7309 tokens/s a device (tps), and its settings give as much (7307.8)")
		var c struct {
			A, B struct {
				StepTime float64 `json:"step_time_s"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(stdout), &c))
		return c.A.StepTime, c.B.StepTime
	}
	predicted, measured := step("mine " + log)
	require.InDelta(t, 1.121, measured, 1e-9)
	a, b := step(log + " mine")
	require.Equal(t, []float64{measured, predicted}, []float64{a, b})
	_, stderr, code = psim(t, "psim compare mine "+log+" --out both")
	require.Zero(t, code, stderr)
	require.FileExists(t, "both/comparison.json")
	for command, want := range map[string]string{
		log + " " + log:                    "is of a run elsewhere, as is " + log + "; name one of them, and a result of psim's",
		log + " nowhere":                   "nowhere",
		"mine " + folder + "/network.json": "network.json",
	} {
		_, stderr, code := psim(t, "psim compare "+command)
		require.Equal(t, 2, code, command)
		require.Contains(t, stderr, want)
	}
}

// TestCompareTraces: what a profiled step's time went to stands next to the prediction of its plan.
func TestCompareTraces(t *testing.T) {
	folder, err := filepath.Abs("../../../profiles/testdata")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	_, stderr, code := psim(t, "psim run "+folder+"/ddp.toml --out mine")
	require.Zero(t, code, stderr)
	stdout, stderr, code := psim(t, "psim compare mine "+folder+"/traces --json")
	require.Zero(t, code, stderr)
	var c compare.Comparison
	require.NoError(t, json.Unmarshal([]byte(stdout), &c))
	require.InDelta(t, 0.116, c.B.StepTime, 0.001)
	parts := c.B.Parts
	require.InDelta(t, c.B.StepTime, parts.Compute+parts.Communication+parts.Waiting+parts.Dispatch, 1e-9)
	require.InDelta(t, 0.0083, parts.Communication, 0.0005)
	_, stderr, code = psim(t, "psim run ddp --out other")
	require.Zero(t, code, stderr)
	_, stderr, code = psim(t, "psim compare other "+folder+"/traces")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "traces: is of a run of 2 ranks, and ddp has 8 devices")
}

// TestCompareMemoryOfLog: the peak that a log prints stands next to the predicted one, and a log without rates says what
// it lacks.
func TestCompareMemoryOfLog(t *testing.T) {
	log, err := filepath.Abs("../../../launch/testdata/deepspeed.log")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	_, stderr, code := psim(t, "psim run llama3-8b --devices 8 --device h100-80gb-sxm --set model.layers=2 --set batch.micro=4 -o plan --quiet")
	require.Zero(t, code, stderr)
	stdout, stderr, code := psim(t, "psim compare plan "+log)
	require.Zero(t, code, stderr)
	require.Regexp(t, `peak memory +[\d.]+ GB +2\.81 GB`, stdout, "of 2.62 GiB")
	data, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("zero.log", regexp.MustCompile(`CurrSamplesPerSec=[\d.]+`).ReplaceAll(data, []byte("CurrSamplesPerSec=0")), 0o600))
	_, stderr, code = psim(t, "psim compare plan zero.log")
	require.Equal(t, 2, code)
	require.Contains(t, stderr, "zero.log: has no line that says how long a step took: its SamplesPerSec is 0 or nan")
}

// TestCompareGolden: golden values of Megatron-LM's tests, and a log of MLPerf's, are a measured step.
func TestCompareGolden(t *testing.T) {
	t.Chdir(t.TempDir())
	_, stderr, code := psim(t, "psim run llama3-8b --devices 8 --device h100-80gb-sxm --set model.layers=2 -o plan --quiet")
	require.Zero(t, code, stderr)
	require.NoError(t, os.WriteFile("golden.json", []byte(`{"iteration-time": {"values": {"1": 9, "5": 0.2, "10": 0.2}}, "mem-max-allocated-bytes": {"values": {"1": 2e9}}}`), 0o600))
	stdout, stderr, code := psim(t, "psim compare plan golden.json")
	require.Zero(t, code, stderr)
	require.Regexp(t, `step time +[\d.]+ ms +200 ms`, stdout)
	require.Regexp(t, `peak memory +[\d.]+ GB +2.00 GB`, stdout)
	require.NoError(t, os.WriteFile("ml.log", []byte(":::MLLOG {\"key\": \"global_batch_size\", \"value\": 8}\n:::MLLOG {\"key\": \"tracked_stats\", \"value\": {\"train_step_time\": 0.25}}\n"), 0o600))
	stdout, stderr, code = psim(t, "psim explain plan --log ml.log")
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, "a step of 8 samples takes 250 ms, train_step_time, the median of 1 line")
	require.Contains(t, stdout, ": 250 ms, ")
}
