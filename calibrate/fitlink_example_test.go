package calibrate_test

import (
	"log"
	"os"
	"path/filepath"

	"psim/calibrate"
)

// A link from the output of nccl-tests, as a machine file.
func ExampleFitLink() {
	fit, err := calibrate.FitLink(filepath.Join("testdata", "all_reduce.txt"))
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
	// # The rest, for other numbers of ranks, is from all_reduce. Name the device next to this file.
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
