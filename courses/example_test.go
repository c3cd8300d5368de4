package courses_test

import (
	"context"
	"fmt"
	"os"

	"psim/courses"
)

// All runs of CMU's homework, predicted.
func ExampleMake() {
	r, err := courses.Make(context.Background(), "hw4", courses.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 11-868 (LLM Systems), homework 4: data and pipeline parallelism, predicted for rtx-4090d
	//
	// run          step     throughput       bubble  memory
	// ddp=1        261 ms   31,375 tokens/s  0.0 %   9.12 GB
	// ddp=2        362 ms   45,319 tokens/s  28.1 %  9.12 GB
	// ddp=4        417 ms   78,654 tokens/s  37.7 %  9.12 GB
	// model=2      136 ms   30,090 tokens/s  50.9 %  3.52 GB
	// pipeline=2   233 ms   17,555 tokens/s  68.8 %  3.51 GB
	// gpipe=2      97.5 ms  42,003 tokens/s  22.5 %  3.51 GB
	// gpipe=2 M=2  96.3 ms  42,534 tokens/s  27.2 %  3.51 GB
	// gpipe=2 M=8  111 ms   37,006 tokens/s  22.1 %  3.51 GB
}
