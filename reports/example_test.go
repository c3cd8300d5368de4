package reports_test

import (
	"fmt"
	"os"
	"time"

	"psim/reports"
	"psim/reports/picture"
	"psim/results"
	"psim/results/compare"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

func Example() {
	shape := graph.Shape{Ranks: 4, Microbatches: 6}
	schedule, _ := schedules.Find("1f1b")
	order, _ := schedule.Order(shape, nil)
	g, _ := wiring.Pipeline{Name: "1f1b", Shape: shape, Order: order}.Graph()
	trace, _ := sim.Run(g, graph.Costs{Task: func(t *graph.Task) graph.Cost {
		switch t.Kind {
		case graph.Forward:
			return graph.Cost{Busy: 10 * time.Millisecond}
		case graph.Backward:
			return graph.Cost{Busy: 20 * time.Millisecond}
		}
		return graph.Cost{}
	}})
	picture.Gantt(os.Stdout, trace, picture.GanttOptions{})
	// Output:
	// rank 0 |F0F1F2F3............B0--F4B1--F5B2--..B3--..B4--..B5--|
	// rank 1 |..F0F1F2........B0--F3B1--F4B2--F5B3--..B4--..B5--....|
	// rank 2 |....F0F1....B0--F2B1--F3B2--F4B3--F5B4--..B5--........|
	// rank 3 |......F0B0--F1B1--F2B2--F3B3--F4B4--F5B5--............|
	//        0                                                 270 ms
	//        F forward   B backward   . idle
}

// Two microbatches on two ranks, and the same with work that takes a tenth
// longer.
func ExampleCompare() {
	runAt := func(work time.Duration) results.Run {
		shape := graph.Shape{Ranks: 2, Microbatches: 2}
		schedule, _ := schedules.Find("gpipe")
		order, _ := schedule.Order(shape, nil)
		g, _ := wiring.Pipeline{Name: "gpipe", Shape: shape, Order: order}.Graph()
		trace, _ := sim.Run(g, graph.Costs{Task: func(t *graph.Task) graph.Cost {
			if t.Kind.Compute() {
				return graph.Cost{Busy: work}
			}
			return graph.Cost{}
		}})
		info := results.Info{Schedule: "gpipe", Stages: 2, Microbatches: 2}
		return results.Run{Result: results.NewResult(results.Predicted, trace, graph.Summarize(trace), info), Trace: trace}
	}
	a, b := runAt(10*time.Millisecond), runAt(11*time.Millisecond)
	reports.WriteComparison(os.Stdout, compare.Compare(a, b))
	// Output:
	// gpipe: predicted (B) against predicted (A)
	//                    A        B  B against A
	//   step time  60.0 ms  66.0 ms      +10.0 %
	//   bubble      33.3 %   33.3 %   0.0 points
	//
	// what the step is made of, averaged over the ranks
	//                        A        B  of A's step
	//   compute        40.0 ms  44.0 ms       +6.7 %  forward, backward and optimizer take longer
	//   communication      0 s      0 s        0.0 %
	//   waiting        20.0 ms  22.0 ms       +3.3 %  waiting for other ranks takes longer
	//   dispatch           0 s      0 s        0.0 %
	//   together       60.0 ms  66.0 ms      +10.0 %
	//
	// by kind of task, on average
	//                 A        B  B against A  tasks  of A's step
	//   F       10.0 ms  11.0 ms      +10.0 %      4       +3.3 %
	//   B       10.0 ms  11.0 ms      +10.0 %      4       +3.3 %
	//   SEND_F      0 s      0 s            –      2        0.0 %
	//   SEND_B      0 s      0 s            –      2        0.0 %
	//
	// by rank
	//            busy                           idle
	//   rank        A        B  of A's step        A        B  of A's step
	//   0     40.0 ms  44.0 ms       +6.7 %  20.0 ms  22.0 ms       +3.3 %
	//   1     40.0 ms  44.0 ms       +6.7 %  20.0 ms  22.0 ms       +3.3 %
}

// Three steps were measured: their mean, their deviation and their median.
func ExampleNewMeasurement() {
	m := results.NewMeasurement(70*time.Millisecond, 71*time.Millisecond, 75*time.Millisecond)
	fmt.Printf("%.1f ms ± %.1f ms, median %.1f ms\n", 1e3*m.StepTimeMean, 1e3*m.StepTimeStd, 1e3*m.StepTimeMedian)
	// Output: 72.0 ms ± 2.6 ms, median 71.0 ms
}
