package exec

import (
	"context"
	"fmt"
	"time"

	"psim/costmodel/models"
	"psim/exec/programs"
	"psim/internal/units"
	"psim/schedules/graph"
)

// sumWidths lists the widths of linear layers whose gradients are summed to see
// what a sum over two devices takes: 4 KB, 260 KB and 4.2 MB.
var sumWidths = [...]int{32, 256, 1024}

// profileSums measures all-reduces of gradients over two devices: those of data
// parallelism in one bucket of two tensors, with all that belongs to them, which
// is laying tensors end to end and adding on top of copying.
func profileSums(ctx context.Context, devices []*programs.Device, repeats int) ([]Batched, error) {
	var sums []Batched
	for _, width := range sumWidths {
		s, err := profileSum(ctx, devices, width, repeats)
		if err != nil {
			return nil, fmt.Errorf("summing gradients: %w", err)
		}
		sums = append(sums, s)
	}
	return sums, nil
}

func profileSum(ctx context.Context, devices []*programs.Device, width, repeats int) (Batched, error) {
	n, err := models.Model{Family: "mlp", Layers: 1, Hidden: width}.Network()
	if err != nil {
		return Batched{}, err
	}
	result := Batched{Tensors: 1, Bytes: 4 * n.Parameters()}
	t, err := replicas(n, devices, 1, programs.DefaultOptimizer("sgd"))
	if err != nil {
		return Batched{}, err
	}
	defer t.Close()
	batch := Batch{Numbers: make([]float32, len(devices)*width), Targets: make([]int32, len(devices))}
	profile, err := t.Profile(ctx, batch, repeats, RunOptions{})
	if err != nil {
		return Batched{}, err
	}
	times := make([]time.Duration, len(profile.Alone))
	for n, trace := range profile.Alone {
		for i := range int32(trace.Graph.Len()) {
			if trace.Graph.Class(i).Kind == graph.AllReduce {
				times[n] = max(times[n], trace.Spans[i].Duration()) // the ranks wait for each other
			}
		}
	}
	result.Time = units.Median(times)
	return result, nil
}
