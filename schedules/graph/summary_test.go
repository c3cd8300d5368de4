package graph_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// 1F1B over 4 ranks with 8 microbatches, F 1 and B 2: the step lasts 33, each
// rank computes 24, and their own spans idle 9, 6, 3, 0.
func TestBubbles(t *testing.T) {
	trace := ordertest.Relax(t, ordertest.Graph(t, ordertest.Pipeline(t, "1f1b", 4, 8)), ordertest.Unit)
	s := graph.Summarize(trace)
	require.EqualValues(t, 33, s.StepTime)
	require.EqualValues(t, 33, s.Makespan)
	require.InDelta(t, 0.2727, s.Bubble.Makespan, 5e-5)
	require.InDelta(t, 0.2727, s.Bubble.Span, 5e-5, "rank 0 works from the first moment to the last")
	require.Equal(t, 2*3*8, s.Messages)
	var idle []int
	for r, rank := range s.Ranks {
		require.Equal(t, r, rank.Rank)
		require.EqualValues(t, 24, rank.Compute)
		require.EqualValues(t, 9, rank.Idle)
		first, last := ownSpan(trace, int32(r))
		idle = append(idle, int(last-first)-24)
	}
	require.Equal(t, []int{9, 6, 3, 0}, idle)
}

// ownSpan is from the first start to the last end of a rank's compute.
func ownSpan(trace *graph.Trace, rank int32) (first, last time.Duration) {
	first = time.Hour
	for i, task := range trace.Graph.Tasks() {
		if task.Rank == rank && task.Kind.Compute() {
			first, last = min(first, trace.Spans[i].Start), max(last, trace.Spans[i].End)
		}
	}
	return first, last
}

// Two ranks work 4 each of a makespan of 8. Each one's own span is 5 and 4,
// so that the bubble is 1 − 8/16 by makespan and 1 − 8/10 by span.
func TestBubbleBySpan(t *testing.T) {
	trace := hand(2,
		row{graph.Forward, 0, 0, 2}, row{graph.Backward, 0, 3, 5},
		row{graph.Forward, 1, 4, 6}, row{graph.Backward, 1, 6, 8},
		row{graph.Optimizer, 1, 8, 10})
	s := graph.Summarize(trace)
	require.InDelta(t, 1-8.0/16, s.Bubble.Makespan, 1e-12)
	require.InDelta(t, 1-8.0/10, s.Bubble.Span, 1e-12)
	require.EqualValues(t, 8, s.Makespan)
	require.EqualValues(t, 10, s.StepTime)
}

// What devices of a rank exchange within a task is communication: the exposed
// part does not count as compute, the rest runs beside it. In the bubble the task
// is busy from start to end.
func TestInnerCommunication(t *testing.T) {
	trace := simulated(hand(1,
		row{graph.Forward, 0, 0, 4}, row{graph.Backward, 0, 5, 10},
		row{graph.SendForward, 0, 4, 5}, row{graph.Optimizer, 0, 10, 12}))
	trace.Prices[0].Inner = &graph.Inner{Within: graph.Within{Communication: 1, Exposed: 1, SentBytes: 10}}
	trace.Prices[1].Inner = &graph.Inner{Within: graph.Within{Communication: 3, Exposed: 2, SentBytes: 7}}
	s := graph.Summarize(trace)
	rank := s.Ranks[0]
	require.EqualValues(t, 9-3, rank.Compute)
	require.EqualValues(t, 1+4, rank.Communication)
	require.EqualValues(t, 1+3, rank.ExposedCommunication)
	require.EqualValues(t, 2, rank.Optimizer)
	require.Zero(t, rank.Idle)
	require.EqualValues(t, 17, rank.SentBytes)
	require.InDelta(t, 0.1, s.Bubble.Makespan, 1e-12)
}

// row is a task of a trace made by hand: what, on which rank, from when to
// when.
type row struct {
	kind       graph.Kind
	rank       int32
	start, end time.Duration
}

// hand makes a trace. Collectives run in a group of all ranks.
func hand(ranks int, rows ...row) *graph.Trace {
	g := &graph.Graph{Shape: graph.Shape{Ranks: ranks, Microbatches: 1}, Placement: graph.InOrder(ranks)}
	g.AddGroup(graph.InOrder(ranks).First)
	trace := &graph.Trace{Graph: g}
	for _, r := range rows {
		stream := g.AddStream(r.rank, r.kind.String())
		task := graph.Task{Kind: r.kind, Rank: r.rank, Stream: stream, Stage: r.rank}
		if r.kind == graph.AllGather {
			task.Microbatch = graph.None
		}
		g.Add(task)
		trace.Spans = append(trace.Spans, graph.Span{Start: r.start, End: r.end})
	}
	return trace
}

// time           0123456789
// compute        FFF.BBB...
// messages       .ssss..s..
// collective     .....aa...
// average        ........v.
// optimizer      .........O
func TestOverlapOfCommunication(t *testing.T) {
	s := graph.Summarize(hand(1,
		row{graph.Forward, 0, 0, 3}, row{graph.Backward, 0, 4, 7},
		row{graph.SendForward, 0, 1, 5}, row{graph.SendBackward, 0, 7, 8},
		row{graph.AllReduce, 0, 5, 7}, row{graph.Average, 0, 8, 9},
		row{graph.Optimizer, 0, 9, 10}))
	require.Equal(t, graph.RankSummary{
		Compute: 6, Communication: 8, ExposedCommunication: 3, Optimizer: 1, Idle: 0, PeakInFlight: 1,
	}, s.Ranks[0])
	require.EqualValues(t, 9, s.Makespan)
	require.EqualValues(t, 10, s.StepTime)
	require.Equal(t, 2, s.Messages)
}

// The makespan ends before the optimizer and the gathering of parameters.
func TestMakespanAndStepTime(t *testing.T) {
	s := graph.Summarize(hand(1,
		row{graph.Forward, 0, 0, 2}, row{graph.ReduceScatter, 0, 2, 5}, row{graph.Average, 0, 5, 6},
		row{graph.Optimizer, 0, 6, 8}, row{graph.AllGather, 0, 7, 11}))
	require.EqualValues(t, 6, s.Makespan)
	require.EqualValues(t, 11, s.StepTime)
	require.Equal(t, graph.RankSummary{Compute: 2, Communication: 8, ExposedCommunication: 7, Optimizer: 2, PeakInFlight: 1}, s.Ranks[0])
	empty := graph.Summarize(&graph.Trace{Graph: &graph.Graph{Shape: graph.Shape{Ranks: 2}}})
	require.Equal(t, graph.Summary{Ranks: []graph.RankSummary{{}, {Rank: 1}}}, empty)
}

// The parts of the step time agree with a count instant by instant, and add
// up.
func TestPartsOfTheStep(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) row {
		start := rapid.IntRange(0, 20).Draw(t, "start")
		return row{
			kind:  graph.Kind(rapid.Uint8Range(0, uint8(graph.Optimizer)).Draw(t, "kind")),
			rank:  rapid.Int32Range(0, 2).Draw(t, "rank"),
			start: time.Duration(start), end: time.Duration(start + rapid.IntRange(0, 8).Draw(t, "length")),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(draw, 1, 15).Draw(t, "tasks")
		s := graph.Summarize(hand(3, rows...))
		for r, rank := range s.Ranks {
			want := graph.RankSummary{Rank: r}
			for now := range s.StepTime {
				var compute, communication, optimizer bool
				for _, row := range rows {
					if row.rank == int32(r) && row.start <= now && now < row.end {
						compute = compute || row.kind.Compute()
						communication = communication || row.kind.Communication()
						optimizer = optimizer || row.kind == graph.Optimizer
					}
				}
				if communication {
					want.Communication++
				}
				switch {
				case compute:
					want.Compute++
				case optimizer:
					want.Optimizer++
				case communication:
					want.ExposedCommunication++
				default:
					want.Idle++
					want.Waiting++
				}
			}
			want.PeakInFlight = rank.PeakInFlight
			require.Equal(t, want, rank)
			require.Equal(t, s.StepTime, rank.Compute+rank.ExposedCommunication+rank.Optimizer+rank.Idle)
		}
	})
}
