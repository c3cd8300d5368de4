package reports_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/calibrate"
	"psim/reports"
	"psim/results"
	"psim/schedules/graph"
)

// What is printed is read back as nccl-tests' output is, from text and JSON, with its doubts.
func TestReadBackCollectives(t *testing.T) {
	for name, kind := range map[string]graph.Kind{"ring-allreduce": graph.AllReduce, "ring-reduce-scatter": graph.ReduceScatter, "ring-allgather": graph.AllGather} {
		c := results.CollectiveSizes{Collective: name, Devices: 4, Backend: "Go", Result: kind}
		c.Doubt(nil, "")
		for _, n := range []int64{8, 1 << 20} {
			took := 1e-5 + float64(n)/1e9
			c.Sizes = append(c.Sizes, results.CollectiveSize{Bytes: n, Time: took, BusBandwidth: results.BusShare(kind, 4) * float64(n) / took, Predicted: took})
		}
		for _, write := range []func(io.Writer) error{func(w io.Writer) error { return reports.WriteNCCL(w, c) }, c.WriteJSON} {
			var text bytes.Buffer
			require.NoError(t, write(&text))
			timings, err := calibrate.ReadNCCLTests("x", text.Bytes())
			require.NoError(t, err, text.String())
			require.Len(t, timings, 2)
			require.Equal(t, kind, timings[1].Kind)
			require.Equal(t, 4, timings[1].Ranks)
			require.Equal(t, "4 devices that share cores: the times say little about devices of their own", timings[1].Warning)
			require.InDelta(t, 1058.58e-6, timings[1].Time.Seconds(), 10e-9)
		}
	}
}

// What was disturbed is called so.
func TestDoubtCollectives(t *testing.T) {
	c := results.CollectiveSizes{TimesComparable: true}
	c.Doubt(&results.Steadiness{Slowdown: 0.1}, "")
	require.False(t, c.Disturbed)
	require.Empty(t, c.Warnings)
	c.Doubt(&results.Steadiness{Slowdown: 0.5}, "not pinned")
	require.True(t, c.Disturbed)
	require.Len(t, c.Warnings, 2)
	require.Contains(t, c.Warnings[1], "the machine was disturbed: a fixed matrix product took 50.0 % longer on average than at best")
}
