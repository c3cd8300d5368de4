package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/internal/units"
	"psim/schedules/graph"
)

// What all cores cost each other a part of them cost that part, whatever halves a backward
// is in; messages and collectives are as long as alone.
func TestCoresOfMachine(t *testing.T) {
	w := workload(t, mlp(t, 4, 3), []int32{0, 1}, 2, 2)
	g := graphOf(t, w, orderOf(t, "1f1b", w))
	m := machine()
	require.Nil(t, costsOf(t, w, m, g).Cores)
	slower := func(kinds ...graph.Kind) (list []float64) {
		for _, k := range kinds {
			list = append(list, costsOf(t, w, m, g).Cores.Slower(&graph.Task{Kind: k}))
		}
		return list
	}
	all := []graph.Kind{graph.Forward, graph.Backward, graph.InputGradient, graph.WeightGradient, graph.Optimizer, graph.Average, graph.SendForward, graph.AllReduce}
	m.Cores = costmodel.MachineCores{Number: 2, Forward: 1.5, Backward: 2, Update: 3}
	require.Equal(t, []float64{1.5, 2, 2, 2, 3, 1, 1, 1}, slower(all...))
	m.Cores.Number = 5 // of which four others are busy where it is that slow
	require.Equal(t, []float64{1.125, 1.25, 1.25, 1.25, 1.5, 1, 1, 1}, slower(all...))
	m.Cores.Number = 1
	require.Equal(t, []float64{1, 1, 1, 1, 1, 1, 1, 1}, slower(all...))
}

// Cores are those of one machine, of ranks that launch for nothing.
func TestCoresErrors(t *testing.T) {
	w := workload(t, mlp(t, 4, 3), []int32{0, 1}, 2, 2)
	g := graphOf(t, w, orderOf(t, "1f1b", w))
	for want, change := range map[string]func(m *costmodel.Machine){
		"leave out devices_per_node, or the cores":    func(m *costmodel.Machine) { m.DevicesPerNode, m.Network = 1, m.Link },
		"leave out [machine.host], or the cores":      func(m *costmodel.Machine) { m.Host.Task = units.Duration(time.Microsecond) },
		"need number, the cores that compute at once": func(m *costmodel.Machine) { m.Cores.Number = 0 },
	} {
		m := machine()
		m.Cores = costmodel.MachineCores{Number: 2, Forward: 1.5}
		change(&m)
		_, err := costmodel.StepCosts(m, w.Staged(), g)
		require.ErrorContains(t, err, want)
	}
}

// What was measured beside neighbours is what a machine says of its cores.
func TestMeasuredCores(t *testing.T) {
	alone, pairs := together(12500*time.Microsecond, 12500*time.Microsecond)
	got := costmodel.MeasuredCores(2, []*graph.Trace{alone}, []*graph.Trace{pairs})
	require.InDelta(t, 1.25, got.Forward, 1e-9)
	require.Equal(t, costmodel.MachineCores{Number: 2, Forward: got.Forward, Backward: 1, Update: 1, Average: 1}, got)
}
