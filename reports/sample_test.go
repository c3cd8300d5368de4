package reports_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/results"
	"psim/schedules"
	"psim/schedules/collective"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
	"psim/sim"
)

const ms = time.Millisecond

// times are the costs of a sample: per kind of task, and the bytes that an
// activation takes.
type times struct {
	f, b, i, w           time.Duration
	send, collective     time.Duration
	optimizer            time.Duration
	activation, resident int64
}

func (c times) costs(ranks int) graph.Costs {
	persistent := make([]int64, ranks)
	for r := range persistent {
		persistent[r] = c.resident
	}
	return graph.Costs{Persistent: persistent, Task: func(t *graph.Task) graph.Cost {
		switch {
		case t.Kind == graph.Forward:
			return graph.Cost{Busy: c.f, BytesAtStart: c.activation}
		case t.Kind == graph.Backward && t.Part == 0:
			return graph.Cost{Busy: c.b, BytesAtEnd: -c.activation}
		case t.Kind == graph.Backward:
			return graph.Cost{Busy: c.b}
		case t.Kind == graph.InputGradient:
			return graph.Cost{Busy: c.i, BytesAtEnd: -c.activation / 2}
		case t.Kind == graph.WeightGradient:
			return graph.Cost{Busy: c.w, BytesAtEnd: -c.activation / 2}
		case t.Kind.Message():
			return graph.Cost{Busy: c.send}
		case t.Kind.Collective():
			return graph.Cost{Busy: c.collective}
		case t.Kind == graph.Optimizer:
			return graph.Cost{Busy: c.optimizer}
		}
		return graph.Cost{}
	}}
}

// run simulates a schedule of the catalog.
func run(t testing.TB, name string, p, m int, c times) *graph.Trace {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	shape := graph.Shape{Ranks: p, Microbatches: m}
	o, err := s.Order(shape, nil)
	require.NoError(t, err)
	return runPipeline(t, wiring.Pipeline{Name: name, Shape: shape, Order: o, Optimizer: c.optimizer > 0}, c)
}

func runPipeline(t testing.TB, p wiring.Pipeline, c times) *graph.Trace {
	t.Helper()
	g, err := p.Graph()
	require.NoError(t, err)
	trace, err := sim.Run(g, c.costs(g.Ranks()))
	require.NoError(t, err)
	return trace
}

// ddp is two stages, each on three replicas, whose gradients leave in two
// buckets.
func ddp(t testing.TB) *graph.Trace {
	s, err := schedules.Find("1f1b")
	require.NoError(t, err)
	shape := graph.Shape{Ranks: 2, Microbatches: 4, Replicas: 3}
	o, err := s.Order(graph.Shape{Ranks: 2, Microbatches: 4}, nil)
	require.NoError(t, err)
	return runPipeline(t, wiring.Pipeline{
		Name: "1f1b", Shape: shape, Order: o, Optimizer: true,
		Boundaries: []wiring.Boundary{{Forward: 1 << 20, Backward: 1 << 20}},
		Sync: wiring.Sync{
			Buckets:    [][]int64{{25e6, 25e6}, {25e6, 25e6}},
			Parameters: [][]int64{{50e6}, {50e6}}, Overlap: true, Sharded: true,
		},
	}, times{f: 10 * ms, b: 10 * ms, send: 2 * ms, collective: 12 * ms, optimizer: 8 * ms, activation: 1e9, resident: 2e9})
}

// exposed is two replicas of a single stage that wait for their sum as long as they compute.
func exposed(t testing.TB) *graph.Trace {
	s, err := schedules.Find("ddp")
	require.NoError(t, err)
	o, err := s.Order(graph.Shape{Ranks: 1, Microbatches: 1}, nil)
	require.NoError(t, err)
	return runPipeline(t, wiring.Pipeline{
		Name: "ddp", Shape: graph.Shape{Ranks: 1, Microbatches: 1, Replicas: 2}, Order: o, Optimizer: true,
		Sync: wiring.Sync{Buckets: [][]int64{{25e6}}, Parameters: [][]int64{{25e6}}},
	}, times{f: 10 * ms, b: 20 * ms, collective: 30 * ms, optimizer: 8 * ms, activation: 1e9})
}

// ring is a spelled-out all-reduce.
func ring(t testing.TB, ranks int) *graph.Trace {
	g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: ranks, Length: 8e9}.Graph()
	require.NoError(t, err)
	trace, err := sim.Run(g, graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind == graph.Send {
			return graph.Cost{Busy: 20 * ms}
		}
		return graph.Cost{Busy: 3 * ms}
	}})
	require.NoError(t, err)
	return trace
}

// split is a schedule with I and W and two stages per rank, in a V.
func split(t testing.TB) *graph.Trace {
	o, err := order.ReadCSV(bytes.NewReader([]byte(
		"0F0,3F0,0F1,3I0,3F1,0I0,3I1,0I1,3W0,0W0,3W1,0W1\n1F0,2F0,1F1,2F1,2I0,1I0,2I1,1I1,2W0,1W0,2W1,1W1\n")))
	require.NoError(t, err)
	return runPipeline(t, wiring.Pipeline{
		Name: "zbv", Shape: graph.Shape{Ranks: 2, Microbatches: 2, Virtual: 2},
		Placement: graph.Placement{First: []int32{0, 1, 1, 0}}, Order: o,
	}, times{f: 10 * ms, i: 10 * ms, w: 10 * ms, activation: 1e9, resident: 3e9})
}

// unit is the literature's cost: a backward takes twice a forward.
func unit() times { return times{f: 10 * ms, b: 20 * ms, activation: 2e9, resident: 1e9} }

// info is what results of traces of a graph say.
func info(g *graph.Graph, capacity []int64) results.Info {
	return results.Info{
		Name: "sample", Schedule: g.Name, Stages: g.Shape.Ranks, VirtualStages: max(1, g.Shape.Virtual),
		Microbatches: g.Shape.Microbatches, DataParallel: max(1, g.Shape.Replicas), TensorParallel: 1,
		Samples: 32, Tokens: 32 * 128, Limits: results.Limits{Capacity: capacity},
	}
}

// result is a Result of a trace.
func result(t *graph.Trace, capacity []int64) results.Result {
	return results.NewResult(results.Predicted, t, graph.Summarize(t), info(t.Graph, capacity))
}
