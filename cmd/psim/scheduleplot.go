package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"psim/costmodel"
	"psim/reports"
	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
	"psim/sim"
)

// unit is the time that counts as one where only order matters; any would do.
const unit = time.Second

// plot draws the order.
func (w written) plot(ctx context.Context, path string) error {
	trace, err := w.trace()
	if err != nil {
		return err
	}
	title := reports.UnitTitle(trace, unit)
	draw := func(out io.Writer) error {
		return reports.Timeline(out, pictureFormat(path), title, reports.Panel{Trace: trace, Unit: unit})
	}
	if err := writeFiles(ctx, []file{{path, draw}}); err != nil {
		return fmt.Errorf("--plot %w", err)
	}
	return nil
}

// trace runs the order: F, I and W take one unit of time, B two, messages none.
// What is not a pipeline has four copies, and sums gradients in two halves that
// take one each.
func (w written) trace() (*graph.Trace, error) {
	pipeline, err := w.Pipeline(w.shape, nil)
	if err != nil {
		return nil, err
	}
	if !w.Pipelined {
		pipeline.Shape.Replicas = 4
		pipeline.Sync = wiring.Sync{Buckets: [][]int64{{1, 1}}, Overlap: true}
	}
	g, err := pipeline.Graph()
	if err != nil {
		return nil, err
	}
	one := costmodel.Uniform(unit)
	times := costmodel.Times{Forward: one, InputGradient: one, WeightGradient: one}
	costs := times.Costs(costmodel.ActivationMemory{})
	task := costs.Task
	costs.Task = func(t *graph.Task) graph.Cost {
		slice := !w.Pipelined && t.Kind == graph.Backward && int(t.Microbatch) == w.shape.Microbatches-1
		if t.Kind.Collective() || slice {
			return graph.Cost{Busy: unit}
		}
		return task(t)
	}
	return sim.Run(g, costs)
}

// writeHangs prints whether the order runs to its end, for what its messages
// may be.
func (w written) writeHangs(out io.Writer) error {
	variants := []struct {
		title string
		order func() (order.Order, error)
	}{
		{"every rank receives right before use:", w.order.WithLateReceives},
		{"every rank receives when it is sent (--messages):", w.order.WithMessages},
	}
	if w.order.HasMessages() {
		variants = variants[:1]
		variants[0].title = "messages where they are written:"
		variants[0].order = func() (order.Order, error) { return w.order, nil }
	}
	for _, v := range variants {
		o, err := v.order()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, v.title)
		for _, blocking := range []bool{false, true} {
			how := map[bool]string{false: "buffered", true: "blocking"}[blocking]
			verdict := "runs to its end"
			if err := o.Hang(blocking); err != nil {
				verdict = strings.ReplaceAll(err.Error(), "\n", "\n  ")
			}
			if _, err := fmt.Fprintf(out, "  %s sends: %s\n", how, verdict); err != nil {
				return err
			}
		}
	}
	return nil
}
