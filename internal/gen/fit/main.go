// Command fit fits machines to published rows again, and writes their files.
package main

import (
	"log"

	"psim/internal/published"
)

func main() {
	if err := published.Fit("internal/published/testdata"); err != nil {
		log.Fatal(err)
	}
}
