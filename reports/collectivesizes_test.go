package reports_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel/calibrate"
	"psim/reports"
	"psim/schedules/graph"
)

// What is printed is read back as nccl-tests' output is.
func TestReadBackCollectives(t *testing.T) {
	for _, kind := range []graph.Kind{graph.AllReduce, graph.ReduceScatter, graph.AllGather} {
		c := reports.CollectiveSizes{Collective: "x", Devices: 4, Backend: "Go", Result: kind}
		for _, n := range []int64{8, 1 << 20} {
			took := 1e-5 + float64(n)/1e9
			c.Sizes = append(c.Sizes, reports.CollectiveSize{Bytes: n, Time: took, BusBandwidth: reports.BusShare(kind, 4) * float64(n) / took, Predicted: took})
		}
		var text bytes.Buffer
		require.NoError(t, c.WriteNCCL(&text))
		timings, err := calibrate.ReadNCCLTests("x", text.Bytes())
		require.NoError(t, err, text.String())
		require.Len(t, timings, 2)
		require.Equal(t, kind, timings[1].Kind)
		require.Equal(t, 4, timings[1].Ranks)
		require.InDelta(t, 1058.58e-6, timings[1].Time.Seconds(), float64(time.Microsecond)/1e9)
	}
}
