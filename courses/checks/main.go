// Command checks makes the eight checks of CS1390's training assignment, with whole VGG16 on
// two workers, and prints docs/course-checks.md. It fails if a check fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"

	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/measure"
	"psim/exec/session"
	"psim/exec/train"
	"psim/reports/table"
	"psim/results"
)

// seed makes the weights: the default of psim exec.
const seed = 1390

// command does the same as a check, except that it does not compare losses.
const command = "psim exec CONFIG --gpus 2 --set batch.global=64 --learning-rate RATE --warmup 1 --steps 1 " +
	"--repeats 1 --strided --check weights,output,grads"

// A row is one check: a configuration, trained with a learning rate.
type row struct {
	config, rate string
	results.Checks
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	rows, err := run(ctx, backend.Options{Backend: "go"}, func(what string) { fmt.Fprintln(os.Stderr, what) })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(document(rows))
}

// run makes the eight rows, with further settings of the configurations. It returns all rows
// and what failed.
func run(ctx context.Context, devices backend.Options, tell func(string), sets ...string) (rows []row, err error) {
	for _, rate := range []string{"1e-2", "1e-3"} {
		for _, mode := range []string{"ddp", "fsdp", "model", "pipeline"} {
			r := row{config: "vgg16-cpu-" + mode, rate: rate}
			failed := r.check(ctx, devices, tell, sets)
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("%s at %s: %w", r.config, r.rate, failed))
			}
			if ctx.Err() != nil {
				return rows, err
			}
			rows = append(rows, r)
		}
	}
	return rows, err
}

// check trains a configuration and compares it with the unsplit run.
func (r *row) check(ctx context.Context, devices backend.Options, tell func(string), sets []string) error {
	c, _, err := session.Load(r.config, 2, append([]string{"batch.global=64"}, sets...)...)
	if err != nil {
		return err
	}
	o := session.Options{Seed: seed, Measure: measure.Options{
		Devices: devices, Data: data.Options{Strided: true},
		Train: train.Options{Warmup: 1, Steps: 1}, Repeats: 1, Checks: measure.CheckNames(),
		Stage: func(what string) { tell(r.config + " at " + r.rate + ": " + what) },
	}}
	if _, err := fmt.Sscan(r.rate, &o.LearningRate); err != nil {
		return err
	}
	s := session.Session{Options: o}
	if err := s.Run(ctx, c); err != nil {
		return err
	}
	r.Checks = *s.Main().Result.Checks
	return s.Err()
}

// document returns docs/course-checks.md.
func document(rows []row) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The course's checks

CS1390's training assignment trains VGG16 on two workers in four ways and compares
each with one worker on the same samples. These are its eight checks on the whole
network, with torchvision's start values and strided samples, after three steps of
64 samples in all. Made by

    make course-checks

on %s, with %s. Each is

    %s

and the numbers are the largest absolute differences from the unsplit run: weights
and gradients may differ by 1e-5, outputs by 1e-4. The first loss of ten equally
likely classes is ln 10 = 2.3026.

`, backend.Processor(), runtime.Version(), command)
	difference := func(x *float64) string { return fmt.Sprintf("%.2g", *x) }
	loss := func(x *float64) string { return fmt.Sprintf("%.4f", *x) }
	table.Table[row]{Rows: rows, Columns: []table.Column[row]{
		{Head: "configuration", Left: true, Cell: func(r row) any { return r.config }},
		{Head: "learning rate", Cell: func(r row) any { return r.rate }},
		{Head: "weights", Cell: func(r row) any { return difference(r.Weights) }},
		{Head: "outputs", Cell: func(r row) any { return difference(r.Outputs) }},
		{Head: "gradients", Cell: func(r row) any { return difference(r.Gradients) }},
		{Head: "first loss", Cell: func(r row) any { return loss(r.LossFirst) }},
		{Head: "last loss", Cell: func(r row) any { return loss(r.LossLast) }},
		{Head: "passed", Left: true, Cell: func(r row) any { return r.Passed }},
	}}.Markdown(&b)
	b.WriteString(`
The unsplit run of model and pipeline is one stage of the same network; a model-parallel
run computes the same sums in the same order, so that it equals it to the bit. Tests
run the same eight with a small VGG.
`)
	return b.String()
}
