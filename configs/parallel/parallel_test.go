package parallel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs/parallel"
)

// Expert groups divide the devices of a rank, which has tensor × context of them, or are
// whole ranks.
func TestExpertGroupsAmongParts(t *testing.T) {
	for _, p := range []parallel.Options{
		{Tensor: 2, Context: 4, Expert: 8, Sequence: true},
		{Tensor: 2, Context: 4, Expert: 4, ExpertTensor: 2, Sequence: true},
		{Context: 4, Data: 2, Expert: 8},
	} {
		require.NoError(t, p.Validate(), "%+v", p)
	}
	for want, p := range map[string]parallel.Options{
		"must divide tensor × context × data = 4":                        {Context: 4, Expert: 8},
		"must be parts of a rank's tensor × context = 4, or whole ranks": {Context: 4, Data: 6, Expert: 6},
	} {
		require.ErrorContains(t, p.Validate(), want)
	}
}

// What is not modelled where ZeRO 3 shards experts among the devices that hold the same ones is refused by name.
func TestShardedExpertsRefused(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*parallel.Options)
	}{
		{"", func(*parallel.Options) {}},
		{"zero = 3: there is one replica", func(p *parallel.Options) { p.Data, p.Tensor, p.Sequence = 1, 8, true }},
		{"zero_group = 4: is not modelled with zero = 3 and experts", func(p *parallel.Options) { p.ZeroGroup = 4 }},
		{`gather = "tensor": is not modelled`, func(p *parallel.Options) { p.Gather = parallel.GatherTensor }},
		{"simplified = true: is not modelled", func(p *parallel.Options) { p.Simplified = true }},
		{"expert_overlap = true: is not modelled", func(p *parallel.Options) { p.ExpertOverlap = true }},
		{"delay_weights = true: is not modelled", func(p *parallel.Options) { p.DelayWeights = true }},
	} {
		p := parallel.Options{Data: 8, Tensor: 1, Expert: 4, Zero: 3, Gather: parallel.GatherUnit}
		if c.change(&p); c.want == "" {
			require.NoError(t, p.Validate())
			continue
		}
		require.ErrorContains(t, p.Validate(), c.want)
		p.Expert, p.ExpertTensor = 1, 0
		if p.Tensor == 1 {
			require.NoError(t, p.Validate(), "without expert groups")
		}
	}
}
