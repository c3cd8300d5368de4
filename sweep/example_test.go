package sweep_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"psim"
	"psim/reports"
	"psim/results/rankings"
	"psim/sweep"
)

// How a step scales over more replicas, with two schedules.
func ExampleSweep() {
	c, err := psim.Load("gpipe", "batch.global=64")
	if err != nil {
		log.Fatal(err)
	}
	s, err := sweep.Run(context.Background(), c, sweep.Options{Vary: []rankings.Variation{
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
	//   1f1b                       2        8    68.2 ms  29.7 %        938      2.71 GB   yes  32.9 %      91.2 %
	//   1f1b                       4       16    43.5 ms  33.3 %      1,470      1.90 GB   yes  25.8 %      71.5 %
	//
	// the highest throughput: --set schedule.name=1f1b --set parallel.data=4
}

// Two machines compute a part of a sweep each; together they are the whole.
func ExampleMerge() {
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
		shard := rankings.Shard{Number: i + 1, Of: 2}
		o := sweep.Options{Shard: shard, Folder: filepath.Join(folder, shard.Folder())}
		o.Vary = []rankings.Variation{{Key: "schedule.microbatches", Values: []string{"4", "8", "16"}}}
		s, err := sweep.Run(context.Background(), c, o)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(shard.Folder(), len(s.Points))
	}
	whole, err := sweep.Merge(folder)
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
