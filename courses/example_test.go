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
	// run                step     throughput       bubble or exposed  memory
	// ddp=1              262 ms   31,279 tokens/s  0.2 %              9.12 GB
	// ddp=2              362 ms   44,823 tokens/s  28.2 %             9.12 GB
	// ddp=4              417 ms   77,834 tokens/s  37.7 %             9.12 GB
	// model=2            137 ms   29,913 tokens/s  51.1 %             3.52 GB
	// pipeline=2         233 ms   17,554 tokens/s  68.8 %             3.51 GB
	// gpipe=2            97.5 ms  41,960 tokens/s  22.5 %             3.51 GB
	// gpipe=2 late host  236 ms   17,379 tokens/s  68.4 %             3.51 GB
	// gpipe=2 M=2        96.3 ms  42,489 tokens/s  27.2 %             3.51 GB
	// gpipe=2 M=8        111 ms   36,998 tokens/s  22.1 %             3.51 GB
}
