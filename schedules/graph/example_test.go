package graph_test

import (
	"fmt"
	"time"

	"psim/schedules/graph"
)

// A graph by hand, the trace of a run of it, and what is measured of that.
func Example() {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 1, Microbatches: 1}, Placement: graph.InOrder(1)}
	compute := g.AddStream(0, "compute")
	forward := g.Add(graph.Task{Kind: graph.Forward, Stream: compute, Peer: graph.None})
	g.Add(graph.Task{Kind: graph.Backward, Stream: compute, Peer: graph.None}, forward)
	if err := g.Validate(); err != nil {
		panic(err)
	}
	trace := &graph.Trace{Graph: g, Spans: []graph.Span{{Start: 0, End: time.Second}, {Start: 2 * time.Second, End: 4 * time.Second}}}
	s := graph.Summarize(trace)
	fmt.Println(s.StepTime, s.Bubble.Makespan)
	// Output: 4s 0.25
}
