package sim_test

import (
	"fmt"
	"time"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// Two stages, two microbatches, a forward of 10 ms and a backward of 20 ms,
// and messages that arrive 1 ms after they left.
func ExampleRun() {
	shape := graph.Shape{Ranks: 2, Microbatches: 2}
	gpipe, err := schedules.Find("gpipe")
	if err != nil {
		panic(err)
	}
	order, err := gpipe.Order(shape, nil)
	if err != nil {
		panic(err)
	}
	g, err := wiring.Pipeline{Shape: shape, Order: order}.Graph()
	if err != nil {
		panic(err)
	}
	trace, err := sim.Run(g, graph.Costs{Task: func(t *graph.Task) graph.Cost {
		switch t.Kind {
		case graph.Forward:
			return graph.Cost{Busy: 10 * time.Millisecond}
		case graph.Backward:
			return graph.Cost{Busy: 20 * time.Millisecond}
		}
		return graph.Cost{Delay: time.Millisecond}
	}})
	if err != nil {
		panic(err)
	}
	for i, task := range g.Tasks() {
		if task.Kind.Compute() {
			fmt.Printf("%v from %v to %v\n", task, trace.Span(i).Start, trace.Span(i).End)
		}
	}
	summary := graph.Summarize(trace)
	fmt.Printf("%v, %.0f %% bubble\n", summary.StepTime, 100*summary.Bubble.Makespan)
	fmt.Print("critical path:")
	for _, i := range sim.CriticalPath(trace) {
		fmt.Print(" ", g.Task(i))
	}
	// Output:
	// 0F0 from 0s to 10ms
	// 0F1 from 10ms to 20ms
	// 0B0 from 52ms to 72ms
	// 0B1 from 72ms to 92ms
	// 1F0 from 11ms to 21ms
	// 1F1 from 21ms to 31ms
	// 1B0 from 31ms to 51ms
	// 1B1 from 51ms to 71ms
	// 92ms, 35 % bubble
	// critical path: 0F0 0SEND_F0 1F0 1F1 1B0 1SEND_B0 0B0 0B1
}

// What a search does: many pipelines, one after another, in the same memory.
func ExampleEngine() {
	var builder wiring.Builder
	var engine sim.Engine
	var statistics graph.Statistics
	var s graph.Summary
	costs := graph.Costs{Task: func(t *graph.Task) graph.Cost {
		switch t.Kind {
		case graph.Forward:
			return graph.Cost{Busy: 10 * time.Millisecond, BytesAtStart: 1000}
		case graph.Backward:
			return graph.Cost{Busy: 20 * time.Millisecond, BytesAtEnd: -1000}
		}
		return graph.Cost{}
	}}
	for _, name := range []string{"gpipe", "1f1b"} {
		schedule, err := schedules.Find(name)
		if err != nil {
			panic(err)
		}
		p, err := schedule.Pipeline(graph.Shape{Ranks: 4, Microbatches: 8, Replicas: 2}, nil)
		if err != nil {
			panic(err)
		}
		p.Brief, p.Folded = true, true
		g, err := builder.Graph(p)
		if err != nil {
			panic(err)
		}
		trace, err := engine.Run(g, costs)
		if err != nil {
			panic(err)
		}
		statistics.Summarize(trace, &s)
		fmt.Println(name, s.StepTime, s.Ranks[0].Idle, s.Ranks[0].PeakMemory, len(s.Ranks))
	}
	// Output:
	// gpipe 330ms 90ms 8000 8
	// 1f1b 330ms 90ms 4000 8
}
