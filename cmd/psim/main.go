// Command psim predicts how a distributed training step runs. Run
// "psim help" for its manual.
package main

import (
	"context"
	"os"

	"psim/cmd/psim/cli"
)

func main() { os.Exit(cli.Main(context.Background())) }
