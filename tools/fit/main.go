// Command fit fits machines to published rows again, and writes their files.
package main

import (
	"log"

	"psim/published"
)

func main() {
	if err := published.Fit("published/testdata"); err != nil {
		log.Fatal(err)
	}
}
