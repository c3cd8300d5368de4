package configs

import (
	"errors"
	"fmt"
	"slices"

	"psim/costmodel/arch"
)

// Trained is the network of an experiment with a [model], and the size of its
// largest microbatch, in samples: what has to be known to measure its layers,
// on whatever machine.
func (c *Config) Trained() (arch.Network, int64, error) {
	kind, err := c.work()
	if err != nil {
		return arch.Network{}, 0, err
	}
	if kind != byModel {
		return arch.Network{}, 0, &Error{Label: c.sources[0].label, Problem: "has no [model] whose layers could be measured"}
	}
	if c.Train.Precision != "fp32" {
		return arch.Network{}, 0, c.problem("train", fmt.Errorf("precision = %q: layers are measured in fp32; add --set train.precision=fp32", c.Train.Precision))
	}
	if c.Parallel.Tensor > 1 {
		return arch.Network{}, 0, c.problem("parallel", fmt.Errorf("tensor = %d: layers are measured whole; add --set parallel.tensor=1", c.Parallel.Tensor))
	}
	if c.Model.MegatronKernels() {
		return arch.Network{}, 0, c.problem("model", errors.New(`kernels = "megatron": layers are measured with kernels of psim's own; add --set model.kernels=fused`))
	}
	network, err := c.network()
	if err != nil {
		return network, 0, c.problem("model", err)
	}
	samples, err := c.Batch.Samples(c.Parallel.Data, c.Schedule.Microbatches)
	if err != nil {
		return network, 0, c.problem("batch", err)
	}
	if len(samples) == 0 {
		return network, 0, c.problem("batch", errors.New("there are no samples"))
	}
	return network, slices.Max(samples), nil
}
