package wiring_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/golden"
	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

func TestSynchronousGraph(t *testing.T) {
	p := ordertest.Pipeline(t, "gpipe", 3, 2)
	p.Shape.Replicas, p.Synchronous = 2, true
	golden.Equal(t, "synchronous_graph.golden", ordertest.Dump(ordertest.Graph(t, p)))
}

// All tasks of a clock cycle wait for one barrier, whose tasks are listed once: a graph grows with its
// tasks, not with the square of its ranks.
func TestSynchronousSize(t *testing.T) {
	for _, ranks := range []int{2, 16, 128} {
		p := ordertest.Pipeline(t, "gpipe", ranks, 2*ranks)
		p.Synchronous = true
		g := ordertest.Graph(t, p)
		listed, deps := len(g.More), 0
		for _, tasks := range g.Barriers {
			listed += len(tasks)
		}
		for i := range int32(g.Len()) {
			deps += len(g.Deps(i))
		}
		require.Less(t, listed, 3*g.Len())
		require.Greater(t, deps, g.Len()*ranks/4)
	}
}

// drawSynchronous draws a pipeline of any schedule in clock cycles, with units
// or buckets over replicas.
func drawSynchronous(t *rapid.T) wiring.Pipeline {
	p := ordertest.Draw(t)
	if rapid.Bool().Draw(t, "units") {
		p = drawUnits(t)
	} else if rapid.Bool().Draw(t, "buckets") {
		for range len(p.Boundaries) + 1 {
			p.Sync.Buckets = append(p.Sync.Buckets, []int64{1, 2})
		}
		p.Sync.Overlap = rapid.Bool().Draw(t, "early")
	}
	p.Synchronous = true
	return p
}

// Whatever the times, a cycle starts when the one before has ended, messages
// and all, in every replica; and no task waits for another one twice.
func TestBarriers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawSynchronous(t)
		clocks, err := p.Order.Clocks()
		require.NoError(t, err)
		of := map[order.Action]int32{}
		for r, actions := range p.Order {
			for i, a := range actions {
				of[a] = clocks[r][i]
			}
		}
		g := ordertest.Graph(t, p)
		trace := ordertest.Relax(t, g, drawTimes(t))
		ends := map[[2]int32]time.Duration{} // by replica and cycle
		cycle := func(task graph.Task) [2]int32 {
			a := order.Action{Kind: task.Kind, Stage: task.Stage, Microbatch: task.Microbatch}
			switch {
			case task.Kind == graph.SendForward:
				a.Kind = graph.Forward
			case task.Kind == graph.SendBackward && p.Order.Split():
				a.Kind = graph.InputGradient
			case task.Kind == graph.SendBackward:
				a.Kind = graph.Backward
			}
			return [2]int32{task.Rank / int32(p.Shape.Ranks), of[a]}
		}
		for i, task := range g.Tasks() {
			if task.Kind.Message() || task.Kind.Compute() {
				ends[cycle(task)] = max(ends[cycle(task)], trace.Span(i).End)
			}
		}
		for i, task := range g.Tasks() {
			seen := map[int32]bool{}
			for _, d := range g.Deps(int32(i)) {
				require.False(t, seen[d], "%s waits twice for %s", g.Describe(int32(i)), g.Describe(d))
				seen[d] = true
			}
			if at := cycle(task); task.Kind.Compute() && at[1] > 0 {
				require.GreaterOrEqual(t, trace.Span(i).Start, ends[[2]int32{at[0], at[1] - 1}])
			}
		}
	})
}

// With free messages a step takes, for each cycle, as long as its longest
// action.
func TestSynchronousTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ordertest.Draw(t)
		p.Synchronous, p.Optimizer = true, false
		times := rapid.SliceOfN(rapid.IntRange(0, 9), 8, 8).Draw(t, "times")
		cost := func(task *graph.Task) time.Duration {
			if task.Kind.Compute() {
				return time.Duration(times[task.Kind] + times[int(task.Stage)%4+4])
			}
			return 0
		}
		clocks, err := p.Order.Clocks()
		require.NoError(t, err)
		longest := map[int32]time.Duration{}
		for r, actions := range p.Order {
			for i, a := range actions {
				k := clocks[r][i]
				longest[k] = max(longest[k], cost(&graph.Task{Kind: a.Kind, Stage: a.Stage}))
			}
		}
		var want time.Duration
		for _, d := range longest {
			want += d
		}
		require.Equal(t, want, ordertest.Relax(t, ordertest.Graph(t, p), cost).End())
	})
}

// Equal stages of GPipe lose nothing by the barriers; 1F1B, whose cycles mix
// forwards with longer backwards, does.
func TestSynchronousGPipe(t *testing.T) {
	end := func(name string, ranks, microbatches int, synchronous bool) time.Duration {
		p := ordertest.Pipeline(t, name, ranks, microbatches)
		p.Synchronous = synchronous
		return ordertest.Relax(t, ordertest.Graph(t, p), ordertest.Unit).End()
	}
	for _, ranks := range []int{1, 2, 3, 5} {
		for _, m := range []int{1, 2, 4, 7} {
			require.Equal(t, end("gpipe", ranks, m, false), end("gpipe", ranks, m, true))
			require.EqualValues(t, 3*(m+ranks-1), end("gpipe", ranks, m, true))
		}
	}
	require.Greater(t, end("1f1b", 3, 6, true), end("1f1b", 3, 6, false))
}

// Backwards that run one at a time have a cycle each, after those they wait for,
// whatever stages a rank holds.
func TestSynchronousSerialBackward(t *testing.T) {
	for _, placement := range [][]int32{{0, 1, 0}, {0, 1, 2, 0}, {2, 1, 0}, {0, 1, 2}} {
		for m := 1; m <= 5; m++ {
			p := ordertest.Pipeline(t, "hw4", 3, m, placement...)
			p.Synchronous = true
			n := len(placement)
			trace := ordertest.Relax(t, ordertest.Graph(t, p), ordertest.Unit)
			require.GreaterOrEqual(t, int(trace.End()), m+n-1+2*m*n, "%v, M = %d", placement, m)
			backwards := 0
			for _, k := range trace.Graph.Tasks() {
				if k.Kind == graph.Backward {
					backwards++
				}
			}
			require.Equal(t, m*n, backwards)
		}
	}
}
