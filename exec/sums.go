package exec

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psim/costmodel/arch"
	"psim/exec/programs"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
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
	n, err := arch.Model{Family: "mlp", Layers: 1, Hidden: width}.Network()
	if err != nil {
		return Batched{}, err
	}
	result := Batched{Tensors: 1, Bytes: 4 * n.Parameters()}
	g, err := replicated(len(devices), result.Bytes)
	if err != nil {
		return Batched{}, err
	}
	t, err := NewTrainer(Job{
		Graph: g, Network: n, Layers: []int{1}, Samples: []int{1}, Optimizer: programs.DefaultOptimizer("sgd"), Seed: benchSeed,
	}, devices)
	if err != nil {
		return Batched{}, err
	}
	defer t.Close()
	batch := Batch{Numbers: make([]float32, len(devices)*width), Targets: make([]int32, len(devices))}
	traces, err := t.Profile(ctx, batch, repeats)
	if err != nil {
		return Batched{}, err
	}
	var times []time.Duration
	for _, trace := range traces {
		var longest time.Duration // the ranks wait for each other
		for i := range g.Tasks {
			if g.Tasks[i].Kind == graph.AllReduce {
				longest = max(longest, trace.Spans[i].Duration())
			}
		}
		times = append(times, longest)
	}
	result.Time = middle(times)
	return result, nil
}

// replicated makes the graph of data parallelism with a microbatch of its own for
// every replica and one bucket of gradients.
func replicated(replicas int, bytes int64) (*graph.Graph, error) {
	s, err := schedules.Find("ddp")
	if err != nil {
		return nil, err
	}
	shape := graph.Shape{Ranks: 1, Virtual: 1, Microbatches: 1, Replicas: replicas}
	order, err := s.Order(shape, nil)
	if err != nil {
		return nil, err
	}
	return wiring.Pipeline{
		Name: "ddp", Shape: shape, Order: order, Samples: slices.Repeat([]int64{1}, shape.Microbatches),
		Sync: wiring.Sync{Buckets: [][]int64{{bytes}}}, Optimizer: true,
	}.Graph()
}
