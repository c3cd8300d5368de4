// Command fit fits machines to published rows again, and writes their files. With leave-out it fits the
// constants of stacks without each source in turn, and writes these and the rows that they predict.
package main

import (
	"log"
	"os"
	"slices"

	"psim/published"
)

func main() {
	fit := published.Fit
	if slices.Equal(os.Args[1:], []string{"leave-out"}) {
		fit = published.LeaveOut
	}
	if err := fit("published/testdata"); err != nil {
		log.Fatal(err)
	}
}
