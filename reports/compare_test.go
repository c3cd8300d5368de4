package reports_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/golden"
	"psim/reports"
	"psim/reports/picture"
	"psim/results"
	"psim/results/compare"
	"psim/schedules/graph"
)

// both are a prediction and its measurement.
func both(t testing.TB, name string, p, m int) (a, b results.Run) {
	r, trace, predicted := measured(t, name, p, m)
	return results.Run{Result: *r.Predicted, Trace: predicted}, results.Run{Result: r, Trace: trace}
}

func TestCompare(t *testing.T) {
	a, b := both(t, "gpipe", 2, 4)
	c := compare.Compare(a, b)
	var json, table, csv bytes.Buffer
	require.NoError(t, c.WriteJSON(&json))
	golden.Equal(t, "compare.json", json.Bytes())
	require.NoError(t, reports.WriteComparison(&table, c))
	golden.Equal(t, "compare.txt", table.Bytes())
	require.NoError(t, reports.WriteComparisonCSV(&csv, c))
	golden.Equal(t, "compare.csv", csv.Bytes())
}

// TestCompareEqual checks that a comparison says of equal runs that they are, with traces
// and without, and of others not.
func TestCompareEqual(t *testing.T) {
	a, b := both(t, "gpipe", 2, 4)
	said := func(a, b results.Run) bool {
		var table strings.Builder
		require.NoError(t, reports.WriteComparison(&table, compare.Compare(a, b)))
		return strings.Contains(table.String(), "\nno difference: every number that is compared is equal in A and B\n")
	}
	require.True(t, said(a, a))
	require.True(t, said(results.Run{Result: b.Result}, results.Run{Result: b.Result}))
	require.False(t, said(a, b))
	full := a.Result
	full.Ranks = append([]results.RankResult{}, full.Ranks...)
	full.Ranks[1].PeakMemory--
	require.False(t, said(a, results.Run{Result: full, Trace: a.Trace}))
}

// Where steps differ in work, their throughput comes first, and a warning says so: B's step is
// shorter because it is smaller.
func TestCompareDifferentWork(t *testing.T) {
	base := result(run(t, "gpipe", 2, 4, unit()), nil)
	base.StepTime, base.Throughput = 2, results.Throughput{Samples: 64, Tokens: 64 * 512}
	base.SequenceLength, base.Parameters = 512, 124e6
	timed := base
	timed.Throughput, timed.SequenceLength, timed.Parameters = results.Throughput{}, 0, 0
	timed.Config = map[string]any{"times": map[string]any{"forward": "10ms", "backward": "20ms"}}
	for _, c := range []struct {
		of     results.Result
		change func(b *results.Result)
		first  string // row of the table
		want   string
	}{
		{
			base, func(b *results.Result) {
				b.StepTime, b.Throughput = 1, results.Throughput{Samples: 32, Tokens: 32 * 512}
			},
			"throughput 64.0 samples/s 32.0 samples/s −50.0 %", "A trains on 128 samples, B on 32",
		},
		{
			base, func(b *results.Result) { b.SequenceLength, b.Throughput.Tokens = 2048, 64*2048 },
			"throughput 32,768 tokens/s 131,072 tokens/s +300.0 %", "sequences have 512 tokens in A and 2,048 in B",
		},
		{
			base, func(b *results.Result) { b.Parameters = 350e6 },
			"throughput 64.0 samples/s 64.0 samples/s 0.0 %", "the network has 124,000,000 parameters in A and 350,000,000 in B",
		},
		{
			timed, func(b *results.Result) { b.Microbatches, b.StepTime = 8, 3 },
			"throughput 2.00 microbatches/s 2.67 microbatches/s +33.3 %", "A has 4 microbatches, B 8",
		},
		{
			timed, func(b *results.Result) { b.VirtualStages = 2 },
			"throughput 2.00 microbatches/s 2.00 microbatches/s 0.0 %", "the same [times] are of each of 2 stages in A and of 4 in B",
		},
	} {
		b := c.of
		c.change(&b)
		compared := compare.Compare(results.Run{Result: c.of}, results.Run{Result: b})
		require.Equal(t, []string{c.want}, compared.WorkDiffers)
		require.Contains(t, compared.Warnings, "the steps differ in work: "+c.want+"; compare the throughput, not the step times")
		var text bytes.Buffer
		require.NoError(t, reports.WriteComparison(&text, compared))
		lines := strings.Split(text.String(), "\n")
		require.Equal(t, c.first, strings.Join(strings.Fields(lines[2]), " "))
		require.Contains(t, lines[3], "step time")
	}
	same := base
	same.StepTime, same.Throughput.Samples = 1, 125
	compared := compare.Compare(results.Run{Result: base}, results.Run{Result: same})
	require.NotNil(t, compared.WorkDiffers)
	same.Kind = results.Measured // over an epoch with a smaller last step
	compared = compare.Compare(results.Run{Result: base}, results.Run{Result: same})
	require.Nil(t, compared.WorkDiffers)
	require.InDelta(t, 125.0/64-1, float64(compared.ThroughputDifference), 1e-12)
	other := timed
	other.VirtualStages, other.Config = 2, map[string]any{"times": map[string]any{"forward": "5ms", "backward": "10ms"}}
	require.Nil(t, compare.Compare(results.Run{Result: timed}, results.Run{Result: other}).WorkDiffers, "the same work in more stages")
}

// TestCompareImpossible: a measured run that computes more than its devices can is said to, on either side.
func TestCompareImpossible(t *testing.T) {
	planned := result(run(t, "gpipe", 2, 4, unit()), nil)
	planned.StepTime, planned.HFU, planned.Throughput.Samples = 2, 0.5, 64
	ran := planned
	ran.Kind, ran.HFU = results.Measured, 0
	for step, want := range map[float64]string{
		1.01: "", 0.5: "cannot be: a step of 500 ms would be 200.0 % of the devices' peak; are the devices, the batch",
	} {
		ran.StepTime, ran.Throughput.Samples = step, 128/step
		for _, c := range []compare.Comparison{
			compare.Compare(results.Run{Result: planned}, results.Run{Result: ran}),
			compare.Compare(results.Run{Result: ran}, results.Run{Result: planned}),
		} {
			var text strings.Builder
			require.NoError(t, reports.WriteComparison(&text, c))
			require.Equal(t, want != "", strings.Contains(text.String(), "cannot be: "))
			require.Contains(t, text.String(), want)
		}
	}
}

// TestCompareByHand checks every number of a comparison that fits on a page:
// one rank, ten seconds predicted and twelve measured.
//
//	A  FFFFBBBB.O       idle 1
//	B  .FFFF..BBBBO     ready at 0 and at 6: dispatch 2, waiting 1
func TestCompareByHand(t *testing.T) {
	trace := func(spans ...graph.Span) *graph.Trace {
		g := &graph.Graph{Name: "1f1b", Shape: graph.Shape{Ranks: 1, Microbatches: 1}, Placement: graph.Placement{First: []int32{0}}}
		s := g.AddStream(0, "compute")
		for i, k := range []graph.Kind{graph.Forward, graph.Backward, graph.Optimizer} {
			g.Add(graph.Task{Kind: k, Stream: s, Peer: graph.None})
			spans[i].Start, spans[i].End = spans[i].Start*time.Second, spans[i].End*time.Second
		}
		return &graph.Trace{Graph: g, Spans: spans, Persistent: []int64{100}}
	}
	x := trace(graph.Span{Start: 0, End: 4}, graph.Span{Start: 4, End: 8}, graph.Span{Start: 9, End: 10})
	y := trace(graph.Span{Start: 1, End: 5}, graph.Span{Start: 7, End: 11}, graph.Span{Start: 11, End: 12})
	y.Ready = []time.Duration{0, 6 * time.Second, 11 * time.Second}
	y.Persistent[0] = 125
	before, after := result(x, nil), result(y, nil)
	after.Kind = results.Measured
	c := compare.Compare(results.Run{Result: before, Trace: x}, results.Run{Result: after, Trace: y})
	require.InDelta(t, 0.2, c.StepTimeDifference, 1e-12)
	require.InDelta(t, 3.0/11-0, float64(c.BubbleDifference), 1e-12) // of the makespan, which ends before the optimizer
	require.InDelta(t, 0.25, float64(c.PeakMemoryDifference), 1e-12)
	require.Equal(t, compare.Parts{Dispatch: 0.2}, c.ByPart)
	require.Equal(t, compare.Parts{Compute: 9, Waiting: 1, Dispatch: 2}, c.B.Parts)
	require.Equal(t, compare.KindComparison{CountA: 1, CountB: 1, MeanA: 4, MeanB: 4, TotalA: 4, TotalB: 4}, c.ByKind["F"])
	require.Equal(t, []compare.RankComparison{{
		BusyA: 9, BusyB: 9, IdleA: 1, IdleB: 3, IdleError: 0.2, PeakMemoryA: 100, PeakMemoryB: 125, PeakMemoryError: 0.25,
	}}, c.ByRank)
	require.Equal(t, compare.TaskCounts{Both: 3}, c.Tasks)
	require.Empty(t, c.Warnings)
}

// TestCompareContract checks the names that scripts rely on.
func TestCompareContract(t *testing.T) {
	a, b := both(t, "gpipe", 2, 4)
	var out bytes.Buffer
	require.NoError(t, compare.Compare(a, b).WriteJSON(&out))
	var object struct {
		StepTime *float64           `json:"step_time_error"`
		Bubble   *float64           `json:"bubble_error"`
		ByKind   map[string]any     `json:"by_kind"`
		ByRank   []any              `json:"by_rank"`
		ByPart   map[string]float64 `json:"by_part"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &object))
	require.NotNil(t, object.StepTime)
	require.NotNil(t, object.Bubble)
	require.Contains(t, object.ByKind, "SEND_F")
	require.Len(t, object.ByRank, 2)
	sum := 0.0
	for _, name := range []string{"compute", "communication", "waiting", "dispatch"} {
		require.Contains(t, object.ByPart, name)
		sum += object.ByPart[name]
	}
	require.Len(t, object.ByPart, 4)
	require.InDelta(t, *object.StepTime, sum, 1e-12)
}

// drawRun is a run of random size and times, measured or not.
func drawRun(t *rapid.T, tb testing.TB) results.Run {
	cost := func(name string) time.Duration { return time.Duration(rapid.IntRange(1, 100).Draw(t, name)) * ms }
	c := times{f: cost("f"), b: cost("b"), send: cost("send"), optimizer: cost("o"), activation: 1e6, resident: 1e6}
	name := rapid.SampledFrom([]string{"gpipe", "1f1b"}).Draw(t, "schedule")
	trace := run(tb, name, rapid.IntRange(1, 4).Draw(t, "ranks"), rapid.IntRange(1, 6).Draw(t, "microbatches"), c)
	kind := results.Predicted
	if rapid.Bool().Draw(t, "measured") {
		trace, kind = measure(tb, trace.Graph, c, rapid.Float64Range(0.5, 2).Draw(t, "factor")), results.Measured
	}
	r := result(trace, nil)
	r.Kind = kind
	return results.Run{Result: r, Trace: trace}
}

// TestCompareLaws: the parts add up to the error of the step time; a result
// compared with itself differs in nothing; the difference of B against A is
// that of A against B, with the other sign.
func TestCompareLaws(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawRun(rt, t), drawRun(rt, t)
		ab, ba, aa := compare.Compare(a, b), compare.Compare(b, a), compare.Compare(a, a)
		p := ab.ByPart
		require.InDelta(rt, ab.StepTimeDifference, p.Compute+p.Communication+p.Waiting+p.Dispatch, 1e-12)
		require.Positive(rt, ab.A.StepTime)

		x, y := ab.A.StepTime, ba.A.StepTime
		require.InDelta(rt, ab.StepTimeDifference*x, -ba.StepTimeDifference*y, 1e-12)
		require.InDelta(rt, ab.ByPart.Compute*x, -ba.ByPart.Compute*y, 1e-12)
		require.InDelta(rt, ab.ByPart.Waiting*x, -ba.ByPart.Waiting*y, 1e-12)
		require.Equal(rt, ab.BubbleDifference, -ba.BubbleDifference)
		require.Equal(rt, ab.Tasks, compare.TaskCounts{Both: ba.Tasks.Both, OnlyA: ba.Tasks.OnlyB, OnlyB: ba.Tasks.OnlyA})
		for i := range ab.ByRank {
			require.InDelta(rt, ab.ByRank[i].IdleError*x, -ba.ByRank[i].IdleError*y, 1e-12)
		}
		for k := range ab.ByKind {
			require.InDelta(rt, ab.ByKind[k].OfStep*x, -ba.ByKind[k].OfStep*y, 1e-12)
		}

		require.Equal(rt, compare.Parts{}, aa.ByPart)
		require.Zero(rt, aa.StepTimeDifference)
		require.Zero(rt, aa.BubbleDifference)
		require.True(rt, aa.PeakMemoryDifference.IsZero() || aa.PeakMemoryDifference == 0)
		require.Equal(rt, compare.TaskCounts{Both: a.Trace.Graph.Len()}, aa.Tasks)
		for _, k := range aa.ByKind {
			require.Zero(rt, k.Error)
		}
	})
}

// TestCompareWhatDiffers compares runs that have little in common.
func TestCompareWhatDiffers(t *testing.T) {
	a, b := both(t, "1f1b", 2, 4)
	_, other := both(t, "gpipe", 3, 8)
	other.Result.Measurement.TimesComparable, other.Result.Measurement.Partial = false, true
	still := run(t, "1f1b", 2, 2, times{})
	var out bytes.Buffer
	for _, pair := range [][2]results.Run{
		{a, other}, {other, b},
		{a, {Result: b.Result}},
		{{Result: result(still, nil), Trace: still}, a},
		{{Result: result(ring(t, 4), nil), Trace: ring(t, 4)}, {Result: result(ring(t, 20), nil), Trace: ring(t, 20)}},
	} {
		c := compare.Compare(pair[0], pair[1])
		require.InDelta(t, c.StepTimeDifference, c.ByPart.Compute+c.ByPart.Communication+c.ByPart.Waiting+c.ByPart.Dispatch, 1e-12)
		require.NoError(t, reports.WriteComparison(&out, c))
		out.WriteString("\n")
	}
	measuredOnly := b.Result
	measuredOnly.Ranks = append([]results.RankResult{}, measuredOnly.Ranks...)
	measuredOnly.Ranks[0].Dispatch = nil
	require.Contains(t, compare.Compare(a, results.Run{Result: measuredOnly}).Warnings, "B does not know when tasks were ready, so that its dispatch counts as waiting")
	golden.Equal(t, "compare-differs.txt", out.Bytes())
}

// TestCompareTitles checks that a picture of two runs says which is which.
func TestCompareTitles(t *testing.T) {
	drawn := func(a, b results.Run) string {
		var svg bytes.Buffer
		require.NoError(t, picture.CompareTimelines(&svg, picture.SVG, a, b))
		return svg.String()
	}
	a, b := both(t, "1f1b", 2, 4)
	picture := drawn(a, b)
	for _, text := range []string{">1F1B, 2 stages × 4 microbatches, predicted and measured on 2 devices<", ">measured against predicted: median step +", ">A:  Predicted  ·  step ", ">B:  Measured, the median of 3 steps  ·  step "} {
		require.Contains(t, picture, text)
	}
	other, _ := both(t, "gpipe", 2, 4)
	picture = drawn(a, other)
	for _, text := range []string{">2 stages × 4 microbatches, predicted on 2 devices<", ">B against A: step ", ">A:  1F1B  ·  step ", ">B:  GPipe  ·  step "} {
		require.Contains(t, picture, text)
	}
	wider, _ := both(t, "1f1b", 2, 8)
	require.Contains(t, drawn(a, wider), ">B:  2 stages × 8 microbatches  ·  step ")

	a.Result.Schedule = strings.Repeat("long", 100)
	require.Regexp(t, `>A:  Long(long){10,80}l?o?n?…<`, drawn(a, other), "the end is cut, not clipped")
}

// TestCompareCountsPasses: a pass that is cut counts once, with the time of all its pieces.
func TestCompareCountsPasses(t *testing.T) {
	trace := func(ends ...time.Duration) results.Run {
		g := &graph.Graph{Name: "1f1b", Shape: graph.Shape{Ranks: 1, Microbatches: 1}, Placement: graph.Placement{First: []int32{0}}}
		s, x := g.AddStream(0, "compute"), &graph.Trace{Graph: g, Persistent: []int64{0}}
		for i, end := range ends {
			g.Add(graph.Task{Kind: graph.Forward, Part: uint16(i), Stream: s, Peer: graph.None})
			span := graph.Span{End: end * time.Second}
			if i > 0 {
				span.Start = ends[i-1] * time.Second
			}
			x.Spans = append(x.Spans, span)
		}
		return results.Run{Result: result(x, nil), Trace: x}
	}
	c := compare.Compare(trace(4), trace(1, 3, 6))
	require.Equal(t, compare.KindComparison{CountA: 1, CountB: 1, MeanA: 4, MeanB: 6, TotalA: 4, TotalB: 6, Error: 0.5, OfStep: 0.5}, c.ByKind["F"])
	require.Equal(t, compare.TaskCounts{Both: 1}, c.Tasks)
	require.Equal(t, compare.TaskCounts{Both: 1}, compare.Compare(trace(1, 3, 6), trace(4)).Tasks)
}
