package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// Where the first replica stands for all, its tasks run at the same times as if all were simulated,
// and so do theirs: also where messages and collectives share links.
func TestFoldedTimes(t *testing.T) {
	alike, stretched := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w, m := drawReplicas(t)
		p := wiring.Pipeline{Name: "test", Shape: shape(w), Order: orderOf(t, "1f1b", w), Optimizer: true, Folded: w.Replicas > 1}
		staged := w.Staged()
		staged.Fill(&p)
		traces := [2]*graph.Trace{}
		for i := range traces {
			g, err := p.Graph()
			require.NoError(t, err)
			costs, err := costmodel.StepCosts(m, staged, g)
			if err != nil || p.Folded && !g.Alike(costs) {
				t.Skip("not alike")
			}
			traces[i], err = sim.Run(g, costs)
			require.NoError(t, err)
			p.Folded = false
		}
		folded, all := traces[0], traces[1]
		alike++
		if len(all.Longer) > 0 {
			stretched++
		}
		n := int32(folded.Graph.Len())
		for i := range int32(all.Graph.Len()) {
			one, own := folded.Span(i%n), all.Span(i)
			require.Equal(t, one, own, "%s stands for %s", folded.Graph.Describe(i%n), all.Graph.Describe(i))
		}
	})
	require.Greater(t, alike, 5)
	require.Greater(t, stretched, 5)
}
