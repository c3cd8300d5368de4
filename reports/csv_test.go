package reports_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports/picture"
	"psim/reports/trace"
	"psim/results/tracecsv"
	"psim/schedules/graph"
)

func TestTraceCSV(t *testing.T) {
	c := unit()
	c.send = 2 * ms
	var b bytes.Buffer
	require.NoError(t, tracecsv.WriteTraceCSV(&b, run(t, "1f1b", 2, 2, c)))
	golden.Equal(t, "trace.csv", b.Bytes())
}

// TestTraceCSVRoundTrip checks that what was read has the same metrics, is
// drawn the same way and is written as the same bytes.
func TestTraceCSVRoundTrip(t *testing.T) {
	for name, trace := range map[string]*graph.Trace{
		"1f1b": run(t, "1f1b", 4, 8, unit()), "ddp": ddp(t), "split": split(t), "ring": ring(t, 5),
		"measured": measure(t, run(t, "gpipe", 3, 8, unit()).Graph, unit(), 1.1),
	} {
		t.Run(name, func(t *testing.T) {
			var first, second, ganttA, ganttB bytes.Buffer
			require.NoError(t, tracecsv.WriteTraceCSV(&first, trace))
			again, err := tracecsv.ReadTraceCSV(bytes.NewReader(first.Bytes()))
			require.NoError(t, err)
			require.NoError(t, again.Graph.Validate())
			require.NoError(t, tracecsv.WriteTraceCSV(&second, again))
			require.Equal(t, first.String(), second.String())

			want, got := graph.Summarize(trace), graph.Summarize(again)
			for r := range want.Ranks { // the file of the trace holds no memory
				want.Ranks[r].PeakMemory, want.Ranks[r].PersistentMemory = 0, 0
			}
			require.Equal(t, want, got)
			require.NoError(t, picture.Gantt(&ganttA, trace, picture.GanttOptions{}))
			require.NoError(t, picture.Gantt(&ganttB, again, picture.GanttOptions{}))
			require.Equal(t, ganttA.String(), ganttB.String())
		})
	}
}

func TestTraceCSVForeign(t *testing.T) {
	short := "rank,stream,kind,stage,microbatch,start_ns,end_ns,bytes\r\n" +
		"1,\"a, \"\"b\"\"\",F,1,0,5,9,\r\n" + "0,gradients,ALL_REDUCE,,,0,5,8\r\n"
	trace, err := tracecsv.ReadTraceCSV(strings.NewReader("\ufeff" + short))
	require.NoError(t, err)
	require.Equal(t, `a, "b"`, trace.Graph.Streams[0].Name)
	require.Equal(t, [][]int32{{0}}, trace.Graph.Groups)
	require.Equal(t, []int32{0, 1}, trace.Graph.Placement.First)
	graph.Summarize(trace)
}

func TestTraceCSVErrors(t *testing.T) {
	const header = "rank,stream,kind,stage,microbatch,start_ns,end_ns,bytes,part,peer\n"
	const good = "0,compute,F,0,0,0,10,0,0,\n"
	ready := strings.TrimSpace(header) + ",ready_ns\n"
	for input, want := range map[string]string{
		"":            "the file is empty",
		"\x00\x01PNG": "line 1: the header is",
		"rank,stream,kind,stage,microbatch,start_ns,end_ns,byt\n": "line 1: the header is",
		ready + "0,compute,F,0,0,5,10,0,0,,6\n":                   `line 2, column ready_ns: "6" is not a whole number from 0 to 5`,
		"a,b\n":                                                   "line 1: the header is \"a,b\"; it must be rank,stream,kind",
		header:                                                    "line 2: the trace has no tasks",
		header + "0,c,F\n":                                        "line 2: the number of cells differs from the header; the file is damaged: run again what wrote it",
		header + "0,\"c,F,":                                       "line 2, column ",
		header + good + "x,compute,F,0,0,0,10,0,0,\n":                      `line 3, column rank: "x" is not a whole number from 0 to 1048575`,
		header + "1048576,compute,F,0,0,0,10,0,0,\n":                       "line 2, column rank:",
		header + "0,compute,F,2000000,0,0,10,0,0,\n":                       "line 2, column stage:",
		header + "0,compute,F,0,-2,0,10,0,0,\n":                            "line 2, column microbatch:",
		header + "0,compute,X,0,0,0,10,0,0,\n":                             `line 2, column kind: unknown kind of task "X"`,
		header + "0,compute,F,0,0,11,10,0,0,\n":                            "line 2, column end_ns: 10 is before the start, 11",
		header + "0,compute,F,0,0,0.5,10,0,0,\n":                           "line 2, column start_ns:",
		header + "0,compute,F,0,0,0,10,-1,0,\n":                            "line 2, column bytes:",
		header + "0,compute,F,0,0,0,10,0,65536,\n":                         "line 2, column part:",
		header + "0,\"send\n to 1\",F,0,0,0,10,0,0,9999999\n":              "line 3, column peer:",
		header + good + "0,compute,B,0,0,9,20,0,0,\n":                      "row 2 after the header starts at 9 ns, but row 1 is on the same stream, compute of rank 0, until 10 ns",
		header + "0,compute,B,0,0,10,20,0,0,\n0,compute,F,0,0,0,11,0,0,\n": "row 1 after the header starts at 10 ns, but row 2 is on",
	} {
		_, err := tracecsv.ReadTraceCSV(strings.NewReader(input))
		require.ErrorContains(t, err, want, "%q", input)
	}
}

// TestTraceCSVStreams reads tasks of one stream that touch, in any order, and
// tasks of two streams that overlap.
func TestTraceCSVStreams(t *testing.T) {
	const header = "rank,stream,kind,stage,microbatch,start_ns,end_ns,bytes,part,peer\n"
	for _, rows := range []string{
		"0,c,B,0,0,10,20,0,0,\n0,c,F,0,0,0,10,0,0,\n",
		"0,c,F,0,1,5,10,0,0,\n0,c,F,0,0,5,5,0,0,\n",
		"0,c,F,0,0,0,10,0,0,\n1,c,F,1,0,5,15,0,0,\n",
		"0,c,F,0,0,0,10,0,0,\n0,d,F,0,1,5,15,0,0,\n",
	} {
		_, err := tracecsv.ReadTraceCSV(strings.NewReader(header + rows))
		require.NoError(t, err, rows)
	}
}

func TestMemoryCSV(t *testing.T) {
	trace := run(t, "1f1b", 2, 2, unit())
	curves := tracecsv.MemoryCurves(trace)
	for r, s := range graph.Summarize(trace).Ranks {
		require.Equal(t, s.PeakMemory, curves[r].Peak())
		require.Equal(t, s.PersistentMemory, curves[r].Persistent)
	}
	var b bytes.Buffer
	require.NoError(t, tracecsv.WriteMemoryCSV(&b, tracecsv.EachCurve(trace)))
	golden.Equal(t, "memory.csv", b.Bytes())
	again, err := tracecsv.ReadMemoryCSV(&b)
	require.NoError(t, err)
	require.Equal(t, curves, again)
}

func TestMemoryCSVErrors(t *testing.T) {
	const header = "rank,time_ns,bytes\n"
	for input, want := range map[string]string{
		"":                               "the file is empty",
		header:                           "line 2: no rank",
		header + "0,5,1\n":               "line 2, column time_ns: 5; the first row of rank 0 must be its level at time 0",
		header + "1,0,1\n0,0,1\n":        "line 3, column rank: 0 comes after 1",
		header + "0,0,1\n0,7,2\n0,6,3\n": "line 4, column time_ns: 6 comes after 7",
		header + "0,0,x\n":               "line 2, column bytes:",
		header + "0,0\n":                 "the number of cells differs from the header",
	} {
		_, err := tracecsv.ReadMemoryCSV(strings.NewReader(input))
		require.ErrorContains(t, err, want, "%q", input)
	}
}

func FuzzReadTraceCSV(f *testing.F) {
	for _, name := range []string{"1f1b", "gpipe"} {
		var b bytes.Buffer
		require.NoError(f, tracecsv.WriteTraceCSV(&b, run(f, name, 2, 2, unit())))
		f.Add(b.String())
	}
	var b bytes.Buffer
	require.NoError(f, tracecsv.WriteTraceCSV(&b, ddp(f)))
	f.Add(b.String())
	b.Reset()
	require.NoError(f, tracecsv.WriteTraceCSV(&b, measure(f, run(f, "gpipe", 2, 2, unit()).Graph, unit(), 1)))
	f.Add(b.String())
	f.Fuzz(func(t *testing.T, input string) {
		traced, err := tracecsv.ReadTraceCSV(strings.NewReader(input))
		if err != nil {
			return
		}
		if traced.Graph.Ranks() > 64 || traced.Graph.Len() > 1000 {
			return // only reading is to be fast
		}
		graph.Summarize(traced)
		var b bytes.Buffer
		require.NoError(t, picture.Gantt(io.Discard, traced, picture.GanttOptions{}))
		require.NoError(t, trace.WriteChrome(&b, traced, trace.AllRanks))
		require.True(t, json.Valid(b.Bytes()))
		if traced.End() > 0 {
			require.NoError(t, picture.Timeline(&b, picture.SVG, "", picture.Panel{Trace: traced}))
		}
	})
}

func FuzzReadMemoryCSV(f *testing.F) {
	f.Add("rank,time_ns,bytes\n0,0,1\n0,7,2\n3,0,9\n3,9,1\n")
	f.Fuzz(func(t *testing.T, input string) {
		curves, err := tracecsv.ReadMemoryCSV(strings.NewReader(input))
		if err != nil {
			return
		}
		var b bytes.Buffer
		_ = picture.Memory(&b, picture.SVG, picture.MemoryFigure{Curves: curves, Capacity: []int64{1 << 30}})
	})
}
