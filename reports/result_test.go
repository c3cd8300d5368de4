package reports_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports"
	"psim/results"
	"psim/results/compare"
	"psim/results/rankings"
	"psim/schedules/graph"
)

func TestResultJSON(t *testing.T) {
	r := result(run(t, "1f1b", 4, 8, unit()), nil)
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	golden.Equal(t, "result.json", b.Bytes())
	require.NotContains(t, b.String(), "build_s")

	again, err := results.ReadResult(&b)
	require.NoError(t, err)
	require.Equal(t, r, again)
}

// TestContract checks the names of cli.md, section Result.
func TestContract(t *testing.T) {
	r := result(run(t, "1f1b", 2, 2, unit()), nil)
	seconds := 0.5
	r.Build, r.Simulation = &seconds, &seconds
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	var object map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &object))
	for _, key := range strings.Fields(`schema devices tokens_per_s_per_device kind name schedule stages virtual_stages microbatches data_parallel
		tensor_parallel step_time_s makespan_s bubble throughput ranks fits_memory tasks build_s simulation_s warnings`) {
		require.Contains(t, object, key)
	}
	require.Len(t, object, 21)
	rank := object["ranks"].([]any)[0].(map[string]any)
	for _, key := range strings.Fields(`rank compute_s communication_s exposed_communication_s optimizer_s idle_s
		peak_memory_bytes persistent_memory_bytes peak_in_flight sent_bytes`) {
		require.Contains(t, rank, key)
	}
	require.Len(t, rank, 10)
	b.Reset()
	require.NoError(t, result(run(t, "1f1b", 1, 1, unit()), []int64{8e9}).WriteJSON(&b))
	require.Contains(t, b.String(), `"memory_capacity_bytes": 8000000000,`)
	require.Equal(t, []any{}, object["warnings"])
	b.Reset()
	require.NoError(t, results.Result{}.WriteJSON(&b))
	require.Contains(t, b.String(), `"warnings": []`)
	require.Contains(t, b.String(), `"ranks": []`)
}

func TestResultAddsUp(t *testing.T) {
	for _, r := range []results.Result{result(ddp(t), nil), result(split(t), nil), result(ring(t, 4), nil)} {
		for _, k := range r.Ranks {
			require.InDelta(t, r.StepTime, k.Compute+k.ExposedCommunication+k.Optimizer+k.Idle, 1e-9)
		}
	}
}

// Only pipelines have bubbles. What replicas of a single stage do not compute is communication
// that no work hides, or they are idle; JSON keeps the field.
func TestBubblesAreOfPipelines(t *testing.T) {
	pipeline, replicas := result(run(t, "1f1b", 2, 4, unit()), nil), result(exposed(t), nil)
	require.Positive(t, replicas.Ranks[0].ExposedCommunication)
	text := func(write func(io.Writer) error) string {
		var b strings.Builder
		require.NoError(t, write(&b))
		return b.String()
	}
	said := func(r results.Result) string {
		return text(func(w io.Writer) error { return reports.WriteResult(w, r) })
	}
	require.Contains(t, said(pipeline), "\n  bubble         ")
	require.Contains(t, said(replicas), "\n  exposed        50.0 % of the makespan: communication that no work hides, or idle\n")
	require.NotContains(t, said(replicas), "bubble")
	for _, head := range []struct {
		a, b results.Result
		want string
	}{
		{pipeline, pipeline, " bubble "}, {replicas, replicas, " exposed or idle "}, {replicas, pipeline, " bubble or exposed "},
	} {
		require.Contains(t, text(func(w io.Writer) error {
			return reports.WriteComparison(w, compare.Compare(results.Run{Result: head.a}, results.Run{Result: head.b}))
		}), head.want)
		points := rankings.Sweep{Points: []rankings.SweepPoint{{Result: head.a}, {Result: head.b}, {Error: "impossible"}}}
		require.Contains(t, text(func(w io.Writer) error { return reports.WriteSweep(w, points) }), head.want)
		plans := rankings.Ranking{Plans: []rankings.Candidate{{Result: head.a}, {Result: head.b}}}
		require.Contains(t, text(func(w io.Writer) error { return reports.WriteRanking(w, plans, 2) }), head.want)
		require.Contains(t, text(func(w io.Writer) error {
			return reports.WriteRuns(w, []results.Run{{Result: head.a}, {Result: head.b}})
		}),
			strings.TrimSuffix(head.want, " ")+": ")
	}
	require.Contains(t, text(replicas.WriteJSON), `"bubble": {`)
}

func TestCapacity(t *testing.T) {
	trace := run(t, "1f1b", 4, 8, unit()) // peaks 9, 7, 5 and 3 GB
	for _, c := range []struct {
		capacity []int64
		warnings []string
	}{
		{nil, []string{}},
		{[]int64{9e9, 7e9, 5e9, 3e9}, []string{}}, // equal fits
		{[]int64{9e9}, []string{}},
		{[]int64{9e9, 7e9 - 1, 5e9, 3e9}, []string{"rank 1 needs 7.00 GB of memory and has 7.00 GB, 1 B too little"}},
		{[]int64{5e9, 5e9, 5e9, 5e9}, []string{"rank 0 needs 9.00 GB of memory and has 5.00 GB, 4.00 GB too little; 2 ranks need more than they have"}},
	} {
		r := result(trace, c.capacity)
		require.Equal(t, c.warnings, r.Warnings)
		require.Equal(t, len(c.warnings) == 0, r.FitsMemory)
	}
}

func TestThroughput(t *testing.T) {
	trace := run(t, "1f1b", 1, 1, times{f: 250 * ms, b: 250 * ms})
	r := results.NewResult(results.Predicted, trace, graph.Summarize(trace), results.Info{Samples: 8, Tokens: 1024})
	require.Equal(t, results.Throughput{Samples: 16, Tokens: 2048}, r.Throughput)
	still := run(t, "1f1b", 1, 1, times{})
	r = results.NewResult(results.Predicted, still, graph.Summarize(still), results.Info{Samples: 8})
	require.Zero(t, r.Throughput)
}

// Tokens per second are of all devices and of one, and an MFU above the HFU says why it is.
func TestRatesText(t *testing.T) {
	r := result(run(t, "1f1b", 4, 8, unit()), nil)
	r.Devices, r.Throughput = 8, results.Throughput{Samples: 2, Tokens: 4096}
	r.MFU, r.HFU, r.PeakFLOPs, r.Precision, r.TokensPerDevice = 0.5, 0.4, 1e12, "bf16", 512
	for want, change := range map[string]func(){
		"2.00 samples/s, 4,096 tokens/s in total (512 per device)\n":                           func() {},
		"in bf16; MFU counts attention's full square, as its sources do\n":                     func() {},
		"MFU counts all tokens of a window for each token, and without one the full square\n":  func() { r.Windows = true },
		"in bf16; MFU counts the first layer's input gradient, which is not computed\n":        func() { r.Throughput.Tokens = 0 },
		"MFU            50.0 % (HFU 60.0 %), 500 GFLOP/s per device of 1.00 TFLOP/s in bf16\n": func() { r.HFU = 0.6 },
	} {
		before := r
		change()
		var out bytes.Buffer
		require.NoError(t, reports.WriteResult(&out, r))
		require.Contains(t, out.String(), want)
		r = before
	}
}

func TestReadResultErrors(t *testing.T) {
	for input, want := range map[string]string{
		"":                             "the file is empty",
		" \n":                          "the file is empty",
		"\x89PNG\r\n\x1a\n\x00\x00":    "not a JSON object",
		"[1, 2]":                       "not a JSON object",
		"rank,stream\n":                "not a JSON object",
		"{\"kind\": \"predicted\",\n":  "line 2, column 1: the JSON ends too early; the file is damaged: run again what wrote it",
		"{\n  \"kind\": predicted\n}":  "line 2, column 11: invalid character 'p'",
		"{\n  \"stages\": \"four\"\n}": "line 2, column 18: stages is a JSON string; it must be a whole number below 2⁶³",
		"{} {}":                        "line 1, column 4: invalid character '{' after top-level value",
		"{}":                           `kind is missing, which a result.json of psim run or exec has: "predicted" or "measured"`,
		`{"kind": "measured"}`:         "ranks is empty or missing",
		`{"kind": "measured", "step_time_s": -1, "ranks": [{}]}`:                                                "negative",
		`{"kind": "measured", "step_time_s": 1e308, "ranks": [{}]}`:                                             "step_time_s or makespan_s is negative or above 9.2e+09",
		`{"kind": "measured", "bubble": {"span": 1e308}, "ranks": [{}]}`:                                        "bubble.span is beyond 9.2e+09",
		`{"kind": "measured", "bubble": {"makespan": -1}, "ranks": [{}]}`:                                       "bubble.makespan is not a fraction between 0 and 1",
		`{"kind": "measured", "step_time_s": null, "makespan_s": 1, "ranks": [{}]}`:                             "step_time_s is missing, or 0",
		`{"kind": "measured", "throughput": {"samples_per_s": -1}, "ranks": [{}]}`:                              "throughput is negative",
		`{"kind": "measured", "step_time_s": 1, "throughput": {"tokens_per_s": 1e308}, "ranks": [{}]}`:          "or has more samples or tokens in a step than can be counted",
		`{"kind": "measured", "sequence_length": 9223372036854775807, "ranks": [{}]}`:                           "sequence_length is 9223372036854775807; it is at most",
		`{"kind": "measured", "step_time_s": 1, "ranks": [{"optimizer_s": 2}]}`:                                 "ranks[0]: compute_s, exposed_communication_s, optimizer_s or idle_s is longer than the step",
		`{"kind": "measured", "ranks": [{"rank": -1}]}`:                                                         "ranks[0]: rank is negative",
		`{"kind": "measured", "stages": -1, "ranks": [{}]}`:                                                     "or tasks is negative",
		`{"kind": "measured", "virtual_stages": -1, "ranks": [{}]}`:                                             "or tasks is negative",
		`{"kind": "measured", "microbatches": -1, "ranks": [{}]}`:                                               "or tasks is negative",
		`{"kind": "measured", "data_parallel": -1, "ranks": [{}]}`:                                              "or tasks is negative",
		`{"kind": "measured", "tensor_parallel": -1, "ranks": [{}]}`:                                            "or tasks is negative",
		`{"kind": "measured", "context_parallel": -1, "ranks": [{}]}`:                                           "or tasks is negative",
		`{"kind": "measured", "tasks": -1, "ranks": [{}]}`:                                                      "or tasks is negative",
		`{"kind": "measured", "ranks": [{}, {"peak_memory_bytes": -1}]}`:                                        "ranks[1]: a number of bytes, or peak_in_flight, is negative",
		`{"kind": "measured", "ranks": [{}, {"persistent_memory_bytes": -1}]}`:                                  "ranks[1]: a number of bytes, or peak_in_flight, is negative",
		`{"kind": "measured", "ranks": [{}, {"memory_capacity_bytes": -1}]}`:                                    "ranks[1]: a number of bytes, or peak_in_flight, is negative",
		`{"kind": "measured", "ranks": [{}, {"peak_in_flight": -1}]}`:                                           "ranks[1]: a number of bytes, or peak_in_flight, is negative",
		`{"kind": "measured", "ranks": [{}, {"sent_bytes": -1}]}`:                                               "ranks[1]: a number of bytes, or peak_in_flight, is negative",
		`{"kind": "measured", "ranks": [{}, {"idle_s": 1e308}]}`:                                                "ranks[1]: a time is negative or above 9.2e+09",
		`{"kind": "measured", "ranks": [{"dispatch_s": -1}]}`:                                                   "ranks[0]: a time is negative",
		`{"kind": "measured", "ranks": [{}], "predicted": {"kind": "predicted", "ranks": [{"compute_s": -1}]}}`: "predicted: ranks[0]: a time is negative",
		`{"tasks": 9223372036854775808}`:                                                                        "column 29: tasks is a JSON number; it must be a whole number below 2⁶³",
		`{"step_time_s": 1e999}`:                                                                                "column 21: step_time_s is a JSON number; it must be a number below 1.8e308",
		`{"ranks": 3}`:                                                                                          "ranks is a JSON number; it must be an array",
		`{"bubble": 3}`:                                                                                         "bubble is a JSON number; it must be an object",
	} {
		_, err := results.ReadResult(strings.NewReader(input))
		require.ErrorContains(t, err, want, "%q", input)
	}
	r, err := results.ReadResult(strings.NewReader(`{"kind": "measured", "steps": [1, 2], "checks": {"weights": 0}, "ranks": [{}]}`))
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2}, r.Steps)
}

func FuzzReadResult(f *testing.F) {
	f.Add(`{"kind": "measured", "step_time_s": 1, "ranks": [{"rank": 3}], "warnings": null}`)
	f.Add("{\n\"stages\": 1e400}")
	f.Add(`{"kind": "measured", "ranks": [{"dispatch_s": 1}], "steps": [1, 2], "checks": {"weights": 1e-9}, "heap_growth_bytes": -9223372036854775808,
		"predicted": {"kind": "predicted", "ranks": [{}]}, "runs": [{"kind": "measured", "ranks": [{}], "checks": {}}]}`)
	f.Fuzz(func(t *testing.T, input string) {
		r, err := results.ReadResult(strings.NewReader(input))
		if err != nil {
			return
		}
		var b bytes.Buffer
		require.NoError(t, r.WriteJSON(&b))
		require.NoError(t, reports.WriteResult(&b, r))
		require.NoError(t, reports.WriteResultCSV(&b, r))
	})
}
