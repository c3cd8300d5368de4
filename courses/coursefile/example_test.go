package coursefile_test

import (
	"context"
	"fmt"
	"os"

	"psim"
	"psim/configs"
	"psim/courses/coursefile"
	"psim/results"
)

// A prediction in the format of CS1390's train.py.
func ExampleStats() {
	run := predict("model-parallel", "schedule.stages=2", "schedule.microbatches=1", `times.forward="1s"`, `times.backward="2s"`)
	file, err := coursefile.Stats(run)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(file.Path)
	if err := file.Render(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// stats_model2.json
	// {
	//   "0": {
	//     "rank": 0,
	//     "total_time": 30,
	//     "batches_times": [
	//       0,
	//       1,
	//       4,
	//       6,
	//       6,
	//       7,
	//       10,
	//       12,
	//       12,
	//       13,
	//       16,
	//       18,
	//       18,
	//       19,
	//       22,
	//       24,
	//       24,
	//       25,
	//       28,
	//       30
	//     ]
	//   },
	//   "1": {
	//     "rank": 1,
	//     "total_time": 30,
	//     "batches_times": [
	//       1,
	//       2,
	//       2,
	//       4,
	//       7,
	//       8,
	//       8,
	//       10,
	//       13,
	//       14,
	//       14,
	//       16,
	//       19,
	//       20,
	//       20,
	//       22,
	//       25,
	//       26,
	//       26,
	//       28
	//     ]
	//   },
	//   "cores_per_worker": 1,
	//   "learning_rate": 0.001,
	//   "num_batches": 5,
	//   "num_workers": 2
	// }
}

// The times of an epoch of homework 4, as its ranks would save them.
func ExampleEpochs() {
	for _, file := range coursefile.Epochs(predict("gpt2-4090d-data-parallel", "data.samples=5000").Result) {
		fmt.Println(file.Path)
	}
	// Output:
	// rank0_results_epoch0.json
	// rank1_results_epoch0.json
}

// Homework 5's summary of two runs.
func ExampleSummary() {
	one, two := predict("gpt2-4090d-single", "data.samples=5000"), predict("gpt2-4090d-data-parallel", "data.samples=5000")
	fmt.Println(coursefile.Summary(one.Result, two.Result).Path)
	// Output: performance_summary.json
}

func predict(name string, sets ...string) results.Run {
	c, err := configs.Load(name, sets...)
	if err != nil {
		panic(err)
	}
	p, err := psim.Predict(context.Background(), c)
	if err != nil {
		panic(err)
	}
	return p.Run()
}
