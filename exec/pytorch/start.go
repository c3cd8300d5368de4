package pytorch

import (
	"fmt"

	"psim/costmodel/network"
	"psim/exec/data"
	"psim/exec/kernels"
	"psim/internal/units"
)

// A Start is what a training begins with: the first weights and the samples of a step.
type Start struct {
	tensors []network.Tensor
	values  func(network.Tensor) []float32
	// Tokens or numbers are the inputs of all samples, one after another, and targets theirs.
	tokens  []int32
	numbers []float32
	targets []int32
	samples int
}

// mostWeights is how many bytes of weights a file holds at most.
const mostWeights = 4_000_000_000

// NewStart returns psim's own start: the weights of a seed, and the first batch that source gives to
// replicas of the given sizes.
func NewStart(n network.Network, perReplica []int64, seed uint64, source data.Options) (*Start, error) {
	if n.Layers[0].Kind == network.KindUnknown {
		return nil, fmt.Errorf("psim does not train %s itself, so there is nothing to begin with or compare with; "+
			"gpt, vgg and mlp have that", n.Name)
	}
	if bytes := 4 * n.Parameters(); bytes > mostWeights {
		return nil, fmt.Errorf("%s of weights in fp32 are more than the %s that psim writes; "+
			"without them, the program draws weights of its own, stage by stage",
			units.FormatBytes(bytes), units.FormatBytes(mostWeights))
	}
	set, err := data.NewSource(source, n, perReplica, 1)
	if err != nil {
		return nil, err
	}
	b := set.Batch(0)
	s := &Start{tensors: n.ParameterTensors(), tokens: b.Tokens, targets: b.Targets}
	s.numbers = b.ChannelsFirst(n.Layers[0].Input)
	s.values = func(t network.Tensor) []float32 { return kernels.Initial[float32](seed, t) }
	for _, samples := range perReplica {
		s.samples += int(samples)
	}
	return s, nil
}
