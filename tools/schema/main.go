// Command schema writes docs/result.schema.json, in the root of the repository.
package main

import (
	"bytes"
	"log"
	"os"

	"psim/results/schema"
)

func main() {
	var b bytes.Buffer
	if err := schema.WriteJSON(&b); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("docs/result.schema.json", b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}
