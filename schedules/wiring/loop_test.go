package wiring_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// A rank zeroes its gradients before all else, and the loss is between F and B of the last stage.
func TestLoop(t *testing.T) {
	p := ddp(t, 2, 2, 30)
	p.Loop, p.Samples = &wiring.Loop{Gradients: []int64{60}, Logits: 5}, []int64{3, 4}
	g := ordertest.Graph(t, p)
	require.Equal(t, ordertest.Text(`
		0 compute: ZERO.0 0F0 0LOSS0 0B0 0F1 0LOSS1 0B1 AVERAGE.0 OPTIMIZER.0
		0 gradients: 0ALL_REDUCE`), strings.Split(synchronised(g), "1 compute")[0])
	require.EqualValues(t, 60, g.Task(0).Bytes)
	require.EqualValues(t, []int64{15, 20}, []int64{g.Task(2).Bytes, g.Task(5).Bytes})

	pipeline := ordertest.Pipeline(t, "gpipe", 2, 2)
	pipeline.Loop = &wiring.Loop{Gradients: []int64{1, 2}}
	require.Equal(t, ordertest.Text(`
		0 compute: ZERO.0 0F0 0F1 0B0 0B1
		1 compute: ZERO.0 1F0 1LOSS0 1F1 1LOSS1 1B0 1B1`), synchronised(ordertest.Graph(t, pipeline)))

	pipeline.Loop.Gradients = pipeline.Loop.Gradients[:1]
	_, err := pipeline.Graph()
	require.EqualError(t, err, "gradients of 1 ranks to set to zero; there are 2")
	async := ordertest.Pipeline(t, "pipedream", 2, 2)
	async.Loop = &wiring.Loop{Gradients: []int64{1, 2}}
	_, err = async.Graph()
	require.ErrorContains(t, err, `detail = "loop": pipedream updates a stage after every microbatch`)
}

// The tasks of a loop add their own time and nothing else: if they take none, every other task runs
// when it ran without them.
func TestLoopOnlyAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]func(*rapid.T) wiring.Pipeline{ordertest.Draw, drawUnits, drawSynchronous}).Draw(t, "kind")(t)
		times := drawTimes(t)
		plain := ordertest.Relax(t, ordertest.Graph(t, p), times)
		p.Loop = &wiring.Loop{Gradients: make([]int64, p.Shape.Ranks)}
		g := ordertest.Graph(t, p)
		require.NoError(t, g.Validate())
		free := ordertest.Relax(t, g, func(task *graph.Task) time.Duration {
			if task.Kind == graph.Zero || task.Kind == graph.Loss {
				return 0
			}
			return times(task)
		})
		var spans []graph.Span
		added := map[graph.Kind]int{}
		for i, task := range g.Tasks() {
			if task.Kind == graph.Zero || task.Kind == graph.Loss {
				added[task.Kind]++
				continue
			}
			spans = append(spans, free.Span(i))
		}
		require.Equal(t, plain.Spans, spans)
		require.Equal(t, g.Ranks(), added[graph.Zero])
		require.Equal(t, p.Shape.Microbatches*max(1, p.Shape.Replicas), added[graph.Loss])
		require.GreaterOrEqual(t, ordertest.Relax(t, g, times).End(), plain.End())
	})
}
