package psim_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"psim"
	"psim/reports"
	"psim/reports/picture"
	"psim/results"
	"psim/results/rankings"
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

// What one change each would give.
func ExamplePrediction_WhatIf() {
	ctx := context.Background()
	c, err := psim.Load("course-timeline")
	if err != nil {
		log.Fatal(err)
	}
	p, err := psim.Predict(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	list, _, err := p.WhatIf(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	best := list[0]
	fmt.Printf("%.1f s with %s, in place of %.1f s\n", best.StepTime, strings.Join(best.Set, " "), p.Result.StepTime)
	// Output:
	// 40.9 s with schedule.name=1f1b, in place of 43.7 s
}

// What keeps a network out of a small device's memory, and what would help.
func ExamplePrediction_Advise() {
	ctx := context.Background()
	c, err := psim.Load("gpipe", "machine.compute.memory=6GB")
	if err != nil {
		log.Fatal(err)
	}
	p, err := psim.Predict(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	p.Advise(ctx)
	fmt.Println("fits:", p.Result.FitsMemory)
	for _, remedy := range p.Result.WouldFit {
		fmt.Printf("with %s: %.1f GB\n", strings.Join(remedy.Set, " "), float64(remedy.PeakMemory)/1e9)
	}
	// Output:
	// fits: false
	// with schedule.name=1f1b: 2.7 GB
}

// How a step scales over more replicas, with two schedules.
func ExampleSweep() {
	c, err := psim.Load("gpipe", "batch.global=64")
	if err != nil {
		log.Fatal(err)
	}
	s, err := psim.Sweep(context.Background(), c, psim.SweepOptions{Vary: []rankings.Variation{
		{Key: "schedule.name", Values: []string{"gpipe", "1f1b"}},
		{Key: "parallel.data", Values: []string{"1", "2", "4"}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	if err := reports.WriteSweep(os.Stdout, s.Sweep); err != nil {
		log.Fatal(err)
	}
	// Output:
	// schedule.name  parallel.data  devices  step time  bubble  samples/s  peak memory  fits     MFU  efficiency
	//   gpipe                      1        4     124 ms  32.2 %        514      13.9 GB   yes  36.0 %     100.0 %
	//   gpipe                      2        8    68.6 ms  30.1 %        933      7.26 GB   yes  32.7 %      90.7 %
	//   gpipe                      4       16    44.2 ms  34.4 %      1,447      3.96 GB   yes  25.4 %      70.3 %
	//   1f1b                       1        4     124 ms  32.2 %        514      4.34 GB   yes  36.0 %     100.0 %
	//   1f1b                       2        8    68.2 ms  29.6 %        939      2.71 GB   yes  32.9 %      91.3 %
	//   1f1b                       4       16    43.5 ms  33.3 %      1,470      1.90 GB   yes  25.8 %      71.5 %
	//
	// the highest throughput: --set schedule.name=1f1b --set parallel.data=4
}

// Two machines compute a part of a sweep each; together they are the whole.
func ExampleMergeSweeps() {
	folder, err := os.MkdirTemp("", "psim")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	c, err := psim.Load("gpipe")
	if err != nil {
		log.Fatal(err)
	}
	for i := range 2 {
		shard := psim.Shard{Number: i + 1, Of: 2}
		o := psim.SweepOptions{Shard: shard, Folder: filepath.Join(folder, shard.Folder())}
		o.Vary = []rankings.Variation{{Key: "schedule.microbatches", Values: []string{"4", "8", "16"}}}
		s, err := psim.Sweep(context.Background(), c, o)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(shard.Folder(), len(s.Points))
	}
	whole, err := psim.MergeSweeps(folder)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range whole.Points {
		fmt.Printf("%s: %.0f ms\n", strings.Join(p.Set, " "), 1e3*p.Result.StepTime)
	}
	// Output:
	// shard-1-of-2 2
	// shard-2-of-2 1
	// schedule.microbatches=4: 78 ms
	// schedule.microbatches=8: 68 ms
	// schedule.microbatches=16: 72 ms
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

// The best plan for a network on four devices, and the picture of all.
func ExampleSearch() {
	ctx := context.Background()
	c, err := psim.Load("gpipe", "batch.global=8")
	if err != nil {
		log.Fatal(err)
	}
	found, err := psim.Search(ctx, c, nil)
	if err != nil {
		log.Fatal(err)
	}
	best := found.Plans[0]
	fmt.Printf("the best takes %.0f ms: %s\n", 1e3*best.StepTime, strings.Join(best.Settings, " "))
	folder, err := os.MkdirTemp("", "psim")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	names, err := found.Save(ctx, folder, "gpipe")
	fmt.Println(strings.Join(names, ", "), err)
	// Output:
	// the best takes 20 ms: schedule.name=auto-v schedule.microbatches=4
	// pareto.png, plans.json <nil>
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

// A link from the output of nccl-tests, as a machine file.
func ExampleFitLink() {
	fit, err := psim.FitLink(filepath.Join("testdata", "all_reduce.txt"))
	if err != nil {
		log.Fatal(err)
	}
	if err := fit.WriteTable(os.Stdout); err != nil {
		log.Fatal(err)
	}
	if err := fit.WriteMachine(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output:
	// all-reduces: 10 measured times, of 1KiB to 256MiB, from testdata/all_reduce.txt
	//
	//   ranks  from     call  bus bandwidth
	//       8    0B  24.0 µs      80.0 GB/s
	//
	// error  mean 0.0 %, worst 0.0 %; fitted to every second size, 0.0 % on the others
	//
	// other numbers of ranks  80.0 GB/s, 24.0 µs for a call and 0 s for a step
	// # A machine file, written by psim calibrate --nccl.
	// # A link, fitted to 10 times of nccl-tests
	// # all_reduce is from 10 times of 1KiB to 256MiB in testdata/all_reduce.txt: off by 0.0 % on average, 0.0 % at worst.
	// # The rest, for other numbers of ranks, is from all_reduce. Name the device beside this file.
	//
	// [machine.link]
	// bandwidth = "80GB/s"
	// latency = "0s"
	// collective_bandwidth = "80GB/s"
	// collective_call = "24us"
	// algorithm = "auto"
	//
	// [[machine.link.all_reduce]]
	// ranks = 8
	// from = "0B"
	// call = "24us"
	// bandwidth = "80GB/s"
}

// The best plan for eight devices, whatever the configuration has for four.
func ExampleSearchPlans() {
	c, err := psim.Load("gpipe")
	if err != nil {
		log.Fatal(err)
	}
	query := psim.PlanQuery{Devices: 8, Margin: 0.1, Schedules: []string{"ddp", "1f1b"}, Fix: []string{"parallel.zero"}}
	found, err := psim.SearchPlans(context.Background(), c, query, nil)
	if err != nil {
		log.Fatal(err)
	}
	best := found.Plans[0]
	fmt.Printf("%d plans; the best: %.1f ms with %d replicas of %d stages, in microbatches of %d\n",
		found.Space, best.StepTime*1e3, best.Plan.Data, best.Plan.Stages, best.Plan.Micro)
	// Output:
	// 36 plans; the best: 27.5 ms with 8 replicas of 1 stages, in microbatches of 4
}

// Why the best plan wins, and what would fit where none does.
func ExamplePlanQuery_Remedies() {
	ctx := context.Background()
	c, err := psim.Load("gpipe", "machine.compute.memory=1GB")
	if err != nil {
		log.Fatal(err)
	}
	query := psim.PlanQuery{Devices: 2, Margin: 0.3, Schedules: []string{"ddp", "1f1b"}}
	found, err := psim.SearchPlans(ctx, c, query, nil)
	if err != nil {
		log.Fatal(err)
	}
	remedies, err := query.Remedies(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range remedies {
		fmt.Printf("%d plans fit; one with %s does\n", len(found.Plans), strings.Join(r.Flags, " "))
	}
	// Output:
	// 0 plans fit; one with --devices 8 does
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
	// 1f1b  ·  P = 2, M = 4  ·  15 units  ·  bubble 20.0 %
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
