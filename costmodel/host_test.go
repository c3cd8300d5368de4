package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/units"
	"psim/schedules/graph"
)

// While a device is busy with a layer that was measured, its thread launches what
// comes after: how long the device then waits follows from the measured time of the
// task's own pass, and where the layer's forward is repeated, from that too.
func TestLaunchesBesideMeasuredLayers(t *testing.T) {
	n := mlp(t, 3, 32)
	middle := n.Layers[1]
	require.NotEqual(t, n.Layers[0].Signature(), middle.Signature())
	leads := func(m costmodel.Measured, schedule, recompute string) map[graph.Kind]time.Duration {
		machine := machine()
		machine.Host = costmodel.HostTimes{Operation: units.Duration(time.Millisecond), Task: units.Duration(time.Millisecond)}
		m.Layer, m.Samples = middle.Signature(), 2
		machine.Device.Measured = []costmodel.Measured{m}
		w := workload(t, n, []int32{0}, 2, 2)
		w.Training.Recompute = recompute
		g := graphOf(t, w, orderOf(t, schedule, w))
		costs, list := costsOf(t, w, machine, g), map[graph.Kind]time.Duration{}
		for i := range int32(g.Len()) {
			list[g.Task(i).Kind] = costs.Task(new(g.Task(i))).LaunchLead
		}
		return list
	}
	const long = units.Duration(time.Second)
	for _, c := range []struct {
		measured            costmodel.Measured
		schedule, recompute string
		shorter             []graph.Kind
	}{
		{costmodel.Measured{Forward: long}, "gpipe", "", []graph.Kind{graph.Forward}},
		{costmodel.Measured{Forward: long}, "gpipe", "full", []graph.Kind{graph.Forward, graph.Backward}},
		{costmodel.Measured{Backward: long}, "gpipe", "", []graph.Kind{graph.Backward}},
		{costmodel.Measured{Forward: long}, "zb-h1", "", []graph.Kind{graph.Forward}},
		{costmodel.Measured{Forward: long}, "zb-h1", "full", []graph.Kind{graph.Forward, graph.InputGradient}},
		{costmodel.Measured{InputGradient: long}, "zb-h1", "", []graph.Kind{graph.InputGradient}},
		{costmodel.Measured{WeightGradient: long}, "zb-h1", "", []graph.Kind{graph.WeightGradient}},
	} {
		short, got := leads(costmodel.Measured{}, c.schedule, c.recompute), leads(c.measured, c.schedule, c.recompute)
		var shorter []graph.Kind
		for _, k := range []graph.Kind{graph.Forward, graph.Backward, graph.InputGradient, graph.WeightGradient} {
			require.LessOrEqual(t, got[k], short[k])
			if got[k] < short[k] {
				shorter = append(shorter, k)
			}
		}
		require.Equal(t, c.shorter, shorter, "%+v", c)
	}
}

// CUDA graphs take launches from the thread: those of all kernels, or of all but what experts
// do and exchange.
func TestGraphs(t *testing.T) {
	group := group.Group{Expert: 4}
	launched := func(n network.Network, graphs string) (sum time.Duration) {
		m := machine()
		m.Host = costmodel.HostTimes{Operation: units.Duration(time.Millisecond), Graphs: graphs}
		w := workload(t, n, []int32{0}, 2, 2)
		w.Replicas = 4
		g := graphOf(t, w, orderOf(t, "ddp", w))
		costs := costsOf(t, w, m, g)
		require.Equal(t, graphs == "all", costs.Host == nil)
		for i := range int32(g.Len()) {
			sum += costs.Task(new(g.Task(i))).Launch
		}
		return sum
	}
	n := mixture(t, group)
	all, some := launched(n, "none"), launched(n, "fixed")
	require.Less(t, some, all)
	require.Positive(t, some)
	require.Zero(t, launched(n, "all"))
	require.Equal(t, all, launched(n, ""))
	require.Zero(t, launched(mlp(t, 3, 32), "fixed"), "nothing of it is an expert's")
}
