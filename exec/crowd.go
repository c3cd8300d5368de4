package exec

import (
	"context"

	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/exec/programs"
	"psim/schedules"
	"psim/schedules/graph"
)

// ProfileCrowd measures a step of data parallelism, with a microbatch of so many samples on
// every device, one task alone and on all devices at once: what neighbours take from each
// other on cores that share memory. Of o it uses Repeats and Optimizer.
func ProfileCrowd(ctx context.Context, n network.Network, devices []*programs.Device, samples int, o LayerOptions) (Profile, error) {
	defer holdGarbage()()
	t, err := replicas(n, devices, samples, o.Optimizer)
	if err != nil {
		return Profile{}, err
	}
	defer t.Close()
	source, err := NewSource(DataOptions{}, n, t.job.PerReplica(), 1)
	if err != nil {
		return Profile{}, err
	}
	return t.Profile(ctx, source.Batch(0), o.Repeats, RunOptions{AtOnce: len(devices)})
}

// replicas makes a trainer of a network on every device, whose gradients are summed in one
// bucket. Close it.
func replicas(n network.Network, devices []*programs.Device, samples int, optimizer programs.Optimizer) (*Trainer, error) {
	w := stages.Workload{
		Network: n, Layers: []int{len(n.Layers)}, Placement: graph.InOrder(1), Samples: []int64{int64(samples)}, Replicas: len(devices), Bucket: 4 * n.Parameters(),
		Training: training.Options{Optimizer: optimizer.Name},
	}
	staged := w.Staged()
	g, err := replicated(staged)
	if err != nil {
		return nil, err
	}
	return NewTrainer(Job{Graph: g, Staged: staged, Optimizer: optimizer, Seed: benchSeed}, devices)
}

// replicated wires data parallelism with a microbatch of its own for every replica.
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
