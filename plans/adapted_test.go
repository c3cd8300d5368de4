package plans_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
	"psim/plans"
	"psim/results/rankings"
)

// Where no plan trains a network whole, adapters are a remedy, with shorter samples if it takes these. The
// settings give what the remedy says. Who gives a way to train has no other proposed.
func TestAdaptersAreARemedy(t *testing.T) {
	ctx, on := context.Background(), configs.Target{Device: "rtx-4090", Devices: 2}
	c, err := configs.LoadOn("model:llama3-70b", on)
	require.NoError(t, err)
	query := plans.Query{Devices: 2, Margin: 0.13}
	remedies, err := query.Remedies(ctx, c)
	require.NoError(t, err)
	var found bool
	for _, r := range remedies {
		if r.Devices != 2 {
			continue
		}
		found = true
		require.Contains(t, r.Set, "train.adapter.kind=qlora")
		again, err := c.With(r.Set...)
		require.NoError(t, err)
		p, err := psim.Estimate(ctx, again)
		require.NoError(t, err)
		require.Equal(t, r.PeakMemory, p.Result.PeakMemory())
		require.InDelta(t, r.StepTime, p.Result.StepTime, 1e-9)
		require.True(t, p.Result.FitsMemory)
	}
	require.True(t, found, "%+v", remedies)

	c, err = configs.LoadOn("model:llama3-70b", on, "train.frozen=[embedding]")
	require.NoError(t, err)
	remedies, err = query.Remedies(ctx, c)
	require.NoError(t, err)
	for _, r := range remedies {
		require.NotEqual(t, 2, r.Devices)
	}
}

// A search prices a configuration with adapters as a run of its best plan does, and varies their kind.
func TestSearchWithAdapters(t *testing.T) {
	ctx := context.Background()
	c, err := configs.LoadOn("model:llama3-8b", configs.Target{Device: "rtx-4090", Devices: 4}, "train.adapter.rank=16")
	require.NoError(t, err)
	query := plans.Query{Devices: 4, Rows: 3, Vary: []rankings.Variation{{Key: "train.adapter.kind", Values: []string{"none", "lora", "qlora"}}}}
	answer, err := plans.Search(ctx, c, query, nil)
	require.NoError(t, err)
	require.NotEmpty(t, answer.Plans)
	for _, plan := range answer.Plans {
		again, err := c.With(plan.Set...)
		require.NoError(t, err)
		p, err := psim.Estimate(ctx, again)
		require.NoError(t, err)
		require.True(t, again.Train.Adapts(), "whole weights do not fit")
		require.InDelta(t, plan.StepTime, p.Result.StepTime, 1e-9)
		require.Equal(t, plan.PeakMemory(), p.Result.PeakMemory())
	}
}

// TestOffloadNowhere: blocks to offload that no plan can have are an error of the setting, not of memory.
func TestOffloadNowhere(t *testing.T) {
	for set, want := range map[string]string{
		"train.offload_activations=32": "must be less than the 32 blocks", "machine.host_link.bandwidth=0": "machine.host_link",
	} {
		c, err := configs.LoadOn("llama3-8b", configs.Target{Device: "h100-80gb-sxm"}, "train.offload_activations=8", set)
		if err != nil {
			require.ErrorContains(t, err, want)
			continue
		}
		_, err = plans.Search(t.Context(), c, plans.Query{Devices: 8}, nil)
		require.ErrorContains(t, err, want)
	}
}
