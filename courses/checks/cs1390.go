package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/measure"
	"psim/exec/session"
	"psim/exec/train"
	"psim/reports/table"
	"psim/results"
)

// A row is one check: a configuration, trained with a learning rate.
type row struct {
	config, rate string
	results.Checks
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
	return errors.Join(s.Err(), r.learns())
}

// learns checks the first loss, which is that of ten equally likely classes, and that it falls.
func (r *row) learns() error {
	first, last := *r.LossFirst, *r.LossLast
	if math.Abs(first-math.Log(10)) > 0.01*math.Log(10) || !(last < first) {
		return fmt.Errorf("the loss goes from %.4f to %.4f; it must be ln 10 = 2.3026 within 1 %% at first, and fall",
			first, last)
	}
	return nil
}

// write prints a table of the checks.
func write(w io.Writer, rows []row) {
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
	}}.List(w)
}
