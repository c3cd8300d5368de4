package reports_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/internal/ordertest"
	"psim/reports/trace"
	"psim/results"
	"psim/schedules/graph"
)

// event is what the tests look at in a Chrome trace.
type event struct {
	Ph, Name, Cat, Bp string
	Pid, Tid, ID      int
	Ts, Dur           float64
}

func events(t *testing.T, data []byte) []event {
	var file struct{ TraceEvents []event }
	require.NoError(t, json.Unmarshal(data, &file))
	return file.TraceEvents
}

func TestChrome(t *testing.T) {
	c := unit()
	c.send = 2*ms + 345
	var b bytes.Buffer
	require.NoError(t, trace.WriteChrome(&b, run(t, "1f1b", 2, 2, c), trace.AllRanks))
	golden.Equal(t, "chrome.json", b.Bytes())

	var zipped bytes.Buffer
	require.NoError(t, trace.TraceFile(results.Run{Trace: run(t, "1f1b", 2, 2, c)}, "x.json.gz").Render(&zipped))
	z, err := gzip.NewReader(&zipped)
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(plain))
}

// TestChromeLaws checks what viewers need: no thread overlaps itself, every
// arrow has both ends, each inside a slice that was written before it.
func TestChromeLaws(t *testing.T) {
	c := unit()
	c.send = 2 * ms
	for _, traced := range []*graph.Trace{
		run(t, "1f1b", 4, 8, c), run(t, "gpipe", 4, 8, unit()), ddp(t), ring(t, 4), overlapping(t),
	} {
		var b bytes.Buffer
		require.NoError(t, trace.WriteChrome(&b, traced, trace.AllRanks))
		free, open := map[[2]int]float64{}, map[int]int{}
		var slices []event
		for _, e := range events(t, b.Bytes()) {
			thread := [2]int{e.Pid, e.Tid}
			switch e.Ph {
			case "X":
				require.GreaterOrEqual(t, e.Ts+1e-9, free[thread])
				free[thread] = e.Ts + e.Dur
				slices = append(slices, e)
			case "s", "f":
				open[e.ID]++
				inside := false
				for _, s := range slices {
					inside = inside || s.Pid == e.Pid && s.Tid == e.Tid && s.Ts <= e.Ts+1e-9 && e.Ts <= s.Ts+s.Dur+1e-9
				}
				require.True(t, inside)
			}
		}
		require.Len(t, slices, traced.Graph.Len())
		for _, ends := range open {
			require.Equal(t, 2, ends)
		}
	}
}

// overlapping is a trace as a measurement may give it, with a stream whose
// tasks overlap.
func overlapping(t *testing.T) *graph.Trace {
	trace := ordertest.Measured(run(t, "gpipe", 2, 4, unit()))
	for i := range trace.Spans {
		trace.Spans[i].End += 5 * ms
	}
	return trace
}

func TestChromeRank(t *testing.T) {
	traced := run(t, "1f1b", 4, 4, unit())
	var b bytes.Buffer
	require.NoError(t, trace.WriteChrome(&b, traced, 2))
	require.Equal(t, "2", regexp.MustCompile(`"rank":\s+(\d+)`).FindStringSubmatch(b.String())[1])
	for _, e := range events(t, b.Bytes()) {
		require.Equal(t, 2, e.Pid)
		require.NotContains(t, "sf", e.Ph)
	}
	require.ErrorContains(t, trace.WriteChrome(&b, traced, 4), "rank 4 is outside 0 to 3")
}
