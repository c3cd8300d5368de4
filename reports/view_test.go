package reports_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/reports"
	"psim/reports/picture"
	"psim/results"
	"psim/results/rankings"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// replicated is a pipeline of so many stages on so many replicas.
func replicated(t testing.TB, stages, replicas int) *graph.Trace {
	s, err := schedules.Find("1f1b")
	require.NoError(t, err)
	o, err := s.Order(graph.Shape{Ranks: stages, Microbatches: 2}, nil)
	require.NoError(t, err)
	return runPipeline(t, wiring.Pipeline{Name: "1f1b", Shape: graph.Shape{Ranks: stages, Microbatches: 2, Replicas: replicas}, Order: o}, unit())
}

// shownRows draws a trace and lists the labels of its rows, and what is said of others.
func shownRows(t *testing.T, v picture.View, trace *graph.Trace) (rows []string, others string) {
	var svg bytes.Buffer
	require.NoError(t, v.Timelines(&svg, picture.SVG, results.Run{Result: result(trace, nil), Trace: trace}))
	for _, m := range regexp.MustCompile(`>(rank [^<]*)<`).FindAllStringSubmatch(svg.String(), -1) {
		rows = append(rows, m[1])
	}
	if m := regexp.MustCompile(`>([^<]*not shown)<`).FindStringSubmatch(svg.String()); m != nil {
		others = m[1]
	}
	return rows, others
}

// A timeline shows one replica of many ranks, and says how many others there are.
func TestViewRows(t *testing.T) {
	one := 1
	for _, c := range []struct {
		stages, replicas int
		view             picture.View
		first            string
		rows             int
		others           string
	}{
		{4, 4, picture.View{}, "rank 0 · replica 0", 16, ""},
		{8, 16, picture.View{}, "rank 0 · replica 0", 8, "replica 0 of 16; the others are not shown"},
		{1, 16, picture.View{}, "rank 0", 16, ""},
		{1, 128, picture.View{}, "rank 0", 8, "replicas 0–7 of 128; the others are not shown"},
		{8, 16, picture.View{Replica: &one}, "rank 8 · replica 1", 8, "replica 1 of 16; the others are not shown"},
		{8, 16, picture.View{Replica: &one, Ranks: []int{2, 3}}, "rank 10 · replica 1", 2, "126 other ranks are not shown"},
		{2, 1, picture.View{Ranks: []int{1}}, "rank 1", 1, "1 other rank is not shown"},
	} {
		rows, others := shownRows(t, c.view, replicated(t, c.stages, c.replicas))
		require.Len(t, rows, c.rows)
		require.Equal(t, c.first, rows[0])
		require.Equal(t, c.others, others)
	}
}

// A view of what is not there is refused.
func TestViewCheck(t *testing.T) {
	trace, two, minus := replicated(t, 4, 2), 2, -1
	for want, v := range map[string]picture.View{
		"--replica 2: there are 2 replicas":         {Replica: &two},
		"--replica -1: there are 2 replicas":        {Replica: &minus},
		"--ranks 8: there are 8 ranks":              {Ranks: []int{0, 8}},
		"--window: begins at 1 min 40.0 s, but the": {From: 100 * time.Second, To: 200 * time.Second},
	} {
		require.ErrorContains(t, v.Check(trace), want)
	}
	require.NoError(t, picture.View{Ranks: []int{0, 7}, To: time.Hour}.Check(trace))
}

// A window shows the tasks in it, and an axis that begins and ends with it.
func TestViewWindow(t *testing.T) {
	trace := run(t, "gpipe", 2, 2, unit()) // F at 0–20 and 10–30 ms, then B
	var svg bytes.Buffer
	require.NoError(t, picture.View{From: 5 * ms, To: 25 * ms}.Timelines(&svg, picture.SVG, results.Run{Result: result(trace, nil), Trace: trace}))
	require.NotContains(t, svg.String(), ">backward<")
	require.Contains(t, svg.String(), ">forward<")
	require.Contains(t, svg.String(), ">24<")
	require.NotContains(t, svg.String(), ">26<")
}

// Control characters of names are written out, so that a picture is valid XML.
func TestControlCharacters(t *testing.T) {
	trace := run(t, "gpipe", 2, 2, unit())
	r := results.Run{Result: result(trace, nil), Trace: trace}
	r.Result.Name = "a\x1b[31m\nb"
	var svg bytes.Buffer
	require.NoError(t, picture.Timelines(&svg, picture.SVG, r, r))
	require.NoError(t, wellFormed(svg.Bytes()))
	require.Contains(t, svg.String(), `a\u001b[31m\u000ab`)
	r.Result.Schedule = "own\x1b\norder"
	svg.Reset()
	require.NoError(t, picture.Timelines(&svg, picture.SVG, r))
	require.NoError(t, wellFormed(svg.Bytes()))
	require.Contains(t, svg.String(), `Own\u001b\u000aorder`)
}

// Plans far beyond the capacity stay out of the picture, unless there are no others.
func TestParetoNearCapacity(t *testing.T) {
	plans := func(gigabytes ...int64) (list []rankings.Candidate) {
		for i, g := range gigabytes {
			var p rankings.Candidate
			p.Schedule, p.StepTime, p.Microbatches = "gpipe", 1+float64(i), 4
			p.Ranks = []results.RankResult{{PeakMemory: g * 1e9}}
			list = append(list, p)
		}
		return list
	}
	draw := func(plans []rankings.Candidate) string {
		var svg bytes.Buffer
		require.NoError(t, picture.Pareto(&svg, picture.SVG, picture.ParetoFigure{Title: "plans", Plans: plans, Capacity: 80e9}))
		return svg.String()
	}
	svg := draw(plans(40, 70, 100, 800, 8000))
	require.Contains(t, svg, "2 more plans, right of the picture: up to 8.00 TB")
	require.Contains(t, svg, "memory of the fullest rank (GB)")
	require.NotContains(t, svg, ">200<")
	svg = draw(plans(900, 1000, 8000))
	require.Contains(t, svg, "1 more plan, right of the picture: up to 8.00 TB")
	require.False(t, strings.Contains(draw(plans(40, 70)), "more plan"))
}

// The trace of a very large run is written only where it is asked for.
func TestTraceLimit(t *testing.T) {
	for tasks, written := range map[int]bool{reports.MostTracedTasks: true, reports.MostTracedTasks + 1: false} {
		g := &graph.Graph{}
		g.AddStream(0, "compute")
		trace := &graph.Trace{Graph: g}
		for range tasks {
			g.Add(graph.Task{Kind: graph.Forward, Peer: graph.None})
			trace.Spans = append(trace.Spans, graph.Span{})
		}
		for _, asked := range []bool{false, true} {
			names := ""
			for _, f := range reports.RunFiles((results.Run{Trace: trace}), asked) {
				names += f.Path + " "
			}
			require.Equal(t, written || asked, strings.Contains(names, "trace.csv"))
		}
	}
}
