package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"psim/costmodel"
	"psim/reports"
	"psim/schedules"
	"psim/sim"
)

// plot draws the order: F, I and W take one unit of time, B two, messages none.
func (w written) plot(ctx context.Context, path string) error {
	pipeline, err := w.Pipeline(w.shape, nil)
	if err != nil {
		return err
	}
	graph, err := pipeline.Graph()
	if err != nil {
		return err
	}
	unit := costmodel.Uniform(time.Second)
	times := costmodel.Times{Forward: unit, InputGradient: unit, WeightGradient: unit}
	trace, err := sim.Run(graph, times.Costs(costmodel.ActivationMemory{}))
	if err != nil {
		return err
	}
	title := reports.Title(trace) + "  ·  unit times"
	draw := func(out io.Writer) error {
		return reports.Timeline(out, pictureFormat(path), title, reports.Panel{Trace: trace})
	}
	if err := writeFiles(ctx, []file{{path, draw}}); err != nil {
		return fmt.Errorf("--plot %w", err)
	}
	return nil
}

// writeHangs prints whether the order runs to its end, for what its messages
// may be.
func (w written) writeHangs(out io.Writer) error {
	variants := []struct {
		title string
		order func() (schedules.Order, error)
	}{
		{"every rank receives right before use:", w.order.WithLateReceives},
		{"every rank receives when it is sent (--messages):", w.order.WithMessages},
	}
	if w.order.HasMessages() {
		variants = variants[:1]
		variants[0].title = "messages where they are written:"
		variants[0].order = func() (schedules.Order, error) { return w.order, nil }
	}
	for _, v := range variants {
		order, err := v.order()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, v.title)
		for _, blocking := range []bool{false, true} {
			how := map[bool]string{false: "buffered", true: "blocking"}[blocking]
			verdict := "runs to its end"
			if err := order.Hang(blocking); err != nil {
				verdict = strings.ReplaceAll(err.Error(), "\n", "\n  ")
			}
			if _, err := fmt.Fprintf(out, "  %s sends: %s\n", how, verdict); err != nil {
				return err
			}
		}
	}
	return nil
}
