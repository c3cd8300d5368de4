package psim_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
)

// requireEstimate requires the estimate of a configuration and its explanation to be what is
// predicted, to the byte, and tells whether tasks had no names, and one replica stood for all.
func requireEstimate(t *testing.T, c *configs.Config) (brief, folded bool) {
	t.Helper()
	want, wantErr := psim.Predict(context.Background(), c)
	got, explained, err := psim.EstimateExplained(context.Background(), c)
	if wantErr != nil {
		require.Error(t, err)
		require.Equal(t, wantErr.Error(), err.Error())
		return false, false
	}
	require.NoError(t, err)
	require.Equal(t, want.Summary, got.Summary)
	require.Equal(t, want.Result, got.Result)
	wantExplained, err := want.Explain()
	require.NoError(t, err)
	require.Equal(t, wantExplained, explained)
	require.Equal(t, float64(want.Devices()), c.Devices())
	return got.Experiment.Graph.Microbatch == nil, got.Experiment.Graph.Copies > 1
}

// Estimates are predictions: of every example, with every schedule, with several replicas
// and every way to shard them.
func TestEstimates(t *testing.T) {
	brief, folded, sharded := 0, 0, 0
	for _, name := range configs.Examples() {
		for _, sets := range [][]string{
			nil, {"parallel.data=2"}, {"parallel.data=4", "parallel.zero=1"}, {"parallel.data=2", "parallel.zero=2", "parallel.overlap=true"},
			{"schedule.name=1f1b"}, {"schedule.name=zb-h1"}, {"schedule.name=zbv"}, {"schedule.name=interleaved-1f1b", "schedule.virtual_stages=2"},
			{"schedule.name=zbv", "parallel.data=3", "parallel.zero=2"}, {"parallel.data=2", "machine.devices_per_node=2"},
			{"parallel.data=2", "machine.host.operation=10us", "machine.host.queue=2"}, {"train.stack=megatron"},
			{"parallel.data=2", "parallel.zero=1", "parallel.overlap_gather=true", "parallel.overlap=true"},
			{"schedule.name=dualpipe", "schedule.virtual_stages=1", "parallel.data=2"}, {"schedule.name=ddp", "schedule.stages=1", "parallel.data=4", "parallel.zero=3"},
		} {
			t.Run(fmt.Sprint(name, sets), func(t *testing.T) {
				c, err := psim.Load(name, sets...)
				if err != nil || c.Schedule.Name == "auto" {
					t.Skip("legal for other configurations, or searched for")
				}
				b, f := requireEstimate(t, c)
				if b {
					brief++
				}
				switch {
				case f && c.Parallel.Zero == 3:
					sharded++
				case f:
					folded++
				}
			})
		}
	}
	require.Greater(t, brief, 40)
	require.Greater(t, folded, 10)
	require.Greater(t, sharded, 5)
}

// So it is with experts on other devices: within a rank, over several replicas, with and
// without pairs.
func TestEstimatesOfExperts(t *testing.T) {
	for _, sets := range [][]string{
		{"parallel.expert=8"}, {"parallel.expert=4", "parallel.tensor=8", "parallel.sequence=true", "parallel.data=2"}, {"parallel.expert=8", "parallel.tensor=2", "parallel.sequence=true", "train.recompute=none"},
		{"parallel.expert=4", "parallel.tensor=2", "parallel.sequence=true", "parallel.expert_tensor=2", "parallel.order=tp-pp-dp"},
		{"parallel.expert=8", "schedule.name=interleaved-1f1b", "schedule.virtual_stages=4", "parallel.overlap_gather=true"},
		{"parallel.expert=8", "schedule.name=zb-h1", "parallel.zero=2"}, {"parallel.expert=2", "parallel.context=2", "parallel.data=4"},
		{"parallel.expert=8", "parallel.expert_overlap=true"}, {"parallel.expert=8", "parallel.delay_weights=true"},
		{"parallel.expert=8", "schedule.name=dualpipe", "parallel.delay_weights=true"}, {"parallel.expert=4", "schedule.name=dualpipev"},
	} {
		all := append([]string{"model.preset=mixtral-8x7b", "parallel.tensor=1", "parallel.sequence=false", "parallel.data=8", "batch.global=64"}, sets...)
		c, err := psim.Load("llama3-70b", all...)
		require.NoError(t, err, "%v", sets)
		_, folded := requireEstimate(t, c)
		require.True(t, folded, "%v", sets)
	}
}
