package exec

import (
	"errors"
	"slices"
)

// For returns a trainer of the same parameters on the same devices for another
// graph or other microbatches, such as those of a last batch that is smaller.
// The network, its split and its optimizer must be the same. It is closed with
// the trainer that it comes from, and they must not run at the same time.
func (t *Trainer) For(job Job) (*Trainer, error) {
	if err := job.check(len(t.devices)); err != nil {
		return nil, err
	}
	same := slices.Equal(job.Layers, t.job.Layers) && job.Graph.Placement.Equal(t.job.Graph.Placement) &&
		job.Graph.Shape.Replicas == t.job.Graph.Shape.Replicas && len(job.Network.Layers) == len(t.job.Network.Layers)
	if !same {
		return nil, errors.New("another job of a trainer must split the same network in the same way")
	}
	job.Network, job.Optimizer, job.Recompute, job.PerLayer, job.Seed = t.job.Network, t.job.Optimizer, t.job.Recompute, t.job.PerLayer, t.job.Seed
	plan, err := newPlan(job)
	if err != nil {
		return nil, err
	}
	for s := range plan.cuts {
		if !slices.Equal(plan.cuts[s], t.plan.cuts[s]) {
			return nil, errors.New("another job of a trainer must cut its stages in the same way")
		}
	}
	other := *t
	other.job, other.plan = job, plan
	return &other, t.compileSizes(job.Samples)
}

// compileSizes adds the programs for sizes of microbatches that have none yet.
func (t *Trainer) compileSizes(samples []int) error {
	for _, m := range t.members {
		for s, st := range m.stages {
			if st == nil {
				continue
			}
			layers := t.job.split().Stage(s)
			for k, g := range st.segments {
				n := t.plan.cuts[s][k].layers
				if err := t.shop.compile(m.device.Backend, layers[:n], g, samples); err != nil {
					return err
				}
				layers = layers[n:]
			}
		}
	}
	return nil
}
