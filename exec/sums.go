package exec

import (
	"context"
	"fmt"
	"time"

	"psim/costmodel/arch"
	"psim/costmodel/stages"
	"psim/exec/programs"
	"psim/schedules"
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
	n, err := arch.Model{Family: "mlp", Layers: 1, Hidden: width}.Network()
	if err != nil {
		return Batched{}, err
	}
	result := Batched{Tensors: 1, Bytes: 4 * n.Parameters()}
	w := stages.Workload{ // with one bucket of gradients
		Network: n, Layers: []int{1}, Placement: graph.InOrder(1), Samples: []int64{1}, Replicas: len(devices), Bucket: result.Bytes,
	}
	plan := w.Plan()
	g, err := replicated(plan)
	if err != nil {
		return Batched{}, err
	}
	t, err := NewTrainer(Job{Graph: g, Plan: plan, Optimizer: programs.DefaultOptimizer("sgd"), Seed: benchSeed}, devices)
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
		for i := range g.Tasks {
			if g.Tasks[i].Kind == graph.AllReduce {
				times[n] = max(times[n], trace.Spans[i].Duration()) // the ranks wait for each other
			}
		}
	}
	result.Time = middle(times)
	return result, nil
}

// replicated wires data parallelism with a microbatch of its own for every replica.
func replicated(plan *stages.Plan) (*graph.Graph, error) {
	s, err := schedules.Find("ddp")
	if err != nil {
		return nil, err
	}
	shape := graph.Shape{Ranks: 1, Virtual: 1, Microbatches: len(plan.Samples), Replicas: plan.Replicas}
	p, err := s.Pipeline(shape, nil)
	if err != nil {
		return nil, err
	}
	plan.Fill(&p)
	p.Optimizer = true
	return p.Graph()
}
