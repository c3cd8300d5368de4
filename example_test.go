package psim_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"psim"
	"psim/reports/picture"
	"psim/results"
	"psim/schedules"
	"psim/schedules/graph"
)

// A configuration in, a summary out.
func ExamplePredict() {
	c, err := psim.Load("course-timeline")
	if err != nil {
		log.Fatal(err)
	}
	p, err := psim.Predict(context.Background(), c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("step %.0f ms, bubble %.1f %%\n", 1e3*p.Result.StepTime, 100*p.Result.Bubble.Makespan)
	if err := picture.Gantt(os.Stdout, p.Trace, picture.GanttOptions{}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// step 43710 ms, bubble 58.7 %
	// rank 0 |F0-F1.................................B0-------............B1----------|
	// rank 1 |...F0---F1--.....B0-------------------B1-------------------............|
	// rank 2 |........F...FB0--B1---.................................................|
	//        0                                                                  43.7 s
	//        F forward   B backward   . idle
}

// What is predicted without the trace of every task: 1.6 million of them.
func ExampleEstimate() {
	c, err := psim.Load("tools/speed/megatron-1t.toml")
	if err != nil {
		log.Fatal(err)
	}
	p, err := psim.Estimate(context.Background(), c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Result.Tasks, "tasks,", p.Trace == nil)
	// Output:
	// 1574436 tasks, true
}

// What passes between the stages of a network, for one microbatch.
func ExamplePrediction_Boundaries() {
	c, err := psim.Load("vgg16-cpu-pipeline")
	if err != nil {
		log.Fatal(err)
	}
	p, err := psim.Predict(context.Background(), c)
	if err != nil {
		log.Fatal(err)
	}
	boundaries, err := p.Boundaries()
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range boundaries {
		fmt.Println(b.Direction, b.From, b.To, b.Shape, b.Bytes)
	}
	// Output:
	// forward 0 1 [32 128 16 16] 4194304
	// backward 1 0 [32 128 16 16] 4194304
	// forward 1 2 [32 512 1 1] 65536
	// backward 2 1 [32 512 1 1] 65536
}

// Two schedules of the same network.
func ExampleCompare() {
	var runs []results.Run
	for _, schedule := range []string{"gpipe", "1f1b"} {
		c, err := psim.Load("gpipe", "schedule.name="+schedule)
		if err != nil {
			log.Fatal(err)
		}
		p, err := psim.Predict(context.Background(), c)
		if err != nil {
			log.Fatal(err)
		}
		runs = append(runs, p.Run())
	}
	c := psim.Compare(runs[0], runs[1])
	fmt.Printf("step %+.1f %%, peak memory %+.1f %%\n", 100*c.StepTimeDifference, 100*c.PeakMemoryDifference)
	// Output:
	// step -0.6 %, peak memory -62.7 %
}

// The order of a schedule without any times, drawn in units.
func ExampleUnitTrace() {
	s, err := schedules.Find("1f1b")
	if err != nil {
		log.Fatal(err)
	}
	trace, err := psim.UnitTrace(s, graph.Shape{Ranks: 2, Microbatches: 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(picture.UnitTitle(trace, psim.Unit))
	// Output:
	// 1F1B, 2 stages × 4 microbatches
	// 15 units  ·  bubble 20.0 %
}

// What the step of a pipeline is made of, on average and along its longest chain of
// tasks, and the setting that prices its messages.
func ExamplePrediction_Explain() {
	c, err := psim.Load("zero-bubble")
	if err != nil {
		panic(err)
	}
	p, err := psim.Predict(context.Background(), c)
	if err != nil {
		panic(err)
	}
	e, err := p.Explain()
	if err != nil {
		panic(err)
	}
	for _, class := range e.Classes() {
		fmt.Printf("%-15s  %.3f s  %.3f s\n", class, e.ByClass[class], e.CriticalPath[class])
	}
	fmt.Println(e.Settings[3])
	// Output:
	// forward          0.713 s  0.921 s
	// backward_input   0.707 s  0.707 s
	// backward_weight  0.478 s  0.478 s
	// pipeline         0.000 s  0.004 s
	// waiting          0.212 s  0.000 s
	// {times.p2p 527us given [pipeline]}
}
