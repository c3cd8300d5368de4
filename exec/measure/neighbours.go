package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/exec/backend"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/exec/run"
	"psim/exec/train"
	"psim/internal/ram"
	"psim/internal/units"
	"psim/schedules"
	"psim/schedules/graph"
)

// Neighbours measures a step of data parallelism, with a microbatch of o.Samples[0] samples on
// every device: every task alone, and on all devices at once. That shows how much tasks slow each
// other down on cores that share memory. It also uses o.Repeats and o.Optimizer.
func Neighbours(
	ctx context.Context, n network.Network, devices []*backend.LocalDevice, o LayerOptions,
) (Profile, error) {
	defer ram.HoldGarbage()()
	samples := o.Samples[0]
	t, err := replicaTrainer(n, devices, samples, o.Optimizer)
	if err != nil {
		return Profile{}, err
	}
	defer t.Close()
	perReplica := slices.Repeat([]int64{int64(samples)}, len(devices))
	source, err := data.NewSource(data.Options{}, n, perReplica, 1)
	if err != nil {
		return Profile{}, err
	}
	return Tasks(ctx, t, source.Batch(0), Rounds{run.Options{AtOnce: len(devices)}, o.Repeats})
}

// replicaTrainer makes a trainer of a network on every device, with gradients that are summed
// in one bucket. Close it.
func replicaTrainer(
	n network.Network, devices []*backend.LocalDevice, samples int, optimizer kernels.Optimizer,
) (*train.Trainer, error) {
	w := stages.Workload{
		Network: n, Training: training.Options{Optimizer: optimizer.Name}, Layers: []int{len(n.Layers)},
		Placement: graph.InOrder(1), Samples: []int64{int64(samples)}, Replicas: len(devices),
		Bucket: 4 * n.Parameters(),
	}
	staged := w.Staged()
	g, err := replicated(staged)
	if err != nil {
		return nil, err
	}
	return train.NewTrainer(train.Job{Graph: g, Staged: staged, Optimizer: optimizer, Seed: benchSeed}, devices)
}

// replicated wires data parallelism with a microbatch for every replica.
func replicated(staged *stages.Staged) (*graph.Graph, error) {
	s, err := schedules.Find("ddp")
	if err != nil {
		return nil, err
	}
	shape := graph.Shape{Ranks: 1, Virtual: 1, Microbatches: len(staged.Samples), Replicas: staged.Replicas}
	p, err := s.Pipeline(shape, nil)
	if err != nil {
		return nil, err
	}
	staged.Fill(&p)
	p.Optimizer = true
	return p.Graph()
}

// sumWidths lists the widths of the linear layers whose gradients are summed to measure sums
// over two devices: 4 KB, 260 KB and 4.2 MB.
var sumWidths = [...]int{32, 256, 1024}

// profileSums measures all-reduces of gradients over two devices, as data parallelism does
// them: in one bucket of two tensors, with laying tensors end to end, copying and adding.
func profileSums(ctx context.Context, devices []*backend.LocalDevice, repeats int) ([]TensorTime, error) {
	var sums []TensorTime
	for _, width := range sumWidths {
		s, err := profileSum(ctx, devices, width, repeats)
		if err != nil {
			return nil, fmt.Errorf("summing gradients: %w", err)
		}
		sums = append(sums, s)
	}
	return sums, nil
}

// profileSum measures the all-reduce of the gradients of one layer.
func profileSum(ctx context.Context, devices []*backend.LocalDevice, width, repeats int) (TensorTime, error) {
	n, err := models.Model{Family: "mlp", Layers: 1, Hidden: width}.Network()
	if err != nil {
		return TensorTime{}, err
	}
	result := TensorTime{Tensors: 1, Bytes: 4 * n.Parameters()}
	t, err := replicaTrainer(n, devices, 1, kernels.DefaultOptimizer("sgd"))
	if err != nil {
		return TensorTime{}, err
	}
	defer t.Close()
	batch := data.StepBatch{Numbers: make([]float32, len(devices)*width), Targets: make([]int32, len(devices))}
	profile, err := Tasks(ctx, t, batch, Rounds{Repeats: repeats})
	if err != nil {
		return TensorTime{}, err
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
