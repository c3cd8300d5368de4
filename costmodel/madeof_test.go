package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/schedules/graph"
)

// What a task is made of adds up to its time, and no class is negative.
func TestMadeOfAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawWorkload(t)
		w.Training.DetectAnomaly = rapid.Bool().Draw(t, "anomalies")
		m.Spread = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "spread")
		w = synced(w, 100_000, false)
		g := graphOf(t, w, orderOf(t, rapid.SampledFrom([]string{"gpipe", "zb-h1"}).Draw(t, "schedule"), w))
		staged := w.Staged()
		costs, err := costmodel.StepCosts(m, staged, g)
		require.NoError(t, err)
		madeOf, err := costmodel.MadeOf(m, staged, g.Ranks())
		require.NoError(t, err)
		for i := range int32(g.Len()) {
			task := new(g.Task(i))
			if !task.Kind.Compute() {
				continue
			}
			var sum, tensor time.Duration
			for _, share := range madeOf(task) {
				require.Positive(t, share.Time, share.Class)
				sum += share.Time
				if share.Class == "tensor" {
					tensor = share.Time
				}
			}
			cost := costs.Task(task)
			require.Equal(t, cost.Busy, sum, g.Describe(int32(i)))
			exposed := time.Duration(0)
			if cost.Inner != nil {
				exposed = cost.Inner.Exposed
			}
			require.Equal(t, exposed, tensor, g.Describe(int32(i)))
		}
	})
}

// A rate that is of one class alone changes no other.
func TestMadeOfByConstants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawWorkload(t)
		staged := synced(w, 0, false).Staged()
		task := &graph.Task{Kind: rapid.SampledFrom([]graph.Kind{graph.Forward, graph.InputGradient, graph.WeightGradient}).Draw(t, "kind")}
		parts := func(m costmodel.Machine) map[string]time.Duration {
			madeOf, err := costmodel.MadeOf(m, staged, 2*w.Replicas)
			require.NoError(t, err)
			by := map[string]time.Duration{}
			for _, share := range madeOf(task) {
				by[share.Class] = share.Time
			}
			return by
		}
		for class, change := range map[string]func(*costmodel.Machine){
			"launches": func(m *costmodel.Machine) { m.Device.Launch *= 3 },
			"tensor":   func(m *costmodel.Machine) { m.Link.Latency *= 3; m.Network.Latency *= 3 },
		} {
			before, after := parts(m), m
			change(&after)
			changed := parts(after)
			require.GreaterOrEqual(t, changed[class], before[class])
			delete(before, class)
			delete(changed, class)
			require.Equal(t, before, changed, class)
		}
	})
}
