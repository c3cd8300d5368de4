package plans_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/plans"
	"psim/results/rankings"
)

// Whatever the trainer, plans are within what it offers, and there are some.
func TestSearchPlansTrainers(t *testing.T) {
	sets := []string{"model.layers=2", "batch.global=4", "model.preset=\"\"", "model.family=llama", "model.hidden=512", "model.heads=4", "model.ffn_hidden=1024", "model.vocab=2048", "model.sequence_length=512"}
	for _, s := range configs.Stacks() {
		found := searchPlans(t, "gpipe", plans.Query{Devices: 2, Trainer: s.Name, Rows: 1000}, sets...)
		require.NotEmpty(t, found.Plans, s.Name)
		tensor := false
		for _, p := range found.Plans {
			require.Contains(t, s.Schedules, p.Plan.Schedule)
			require.Contains(t, s.Zero, p.Plan.Zero)
			require.Contains(t, s.Recompute, p.Plan.Recompute)
			tensor = tensor || p.Plan.Tensor > 1
			require.True(t, p.Plan.Tensor == 1 && !p.Plan.Sequence || slices.Contains(s.Sequence, p.Plan.Sequence), p.Set)
		}
		require.Equal(t, s.Tensor, tensor, s.Name)
	}
}

// Of stacks that vary, each has plans within what it offers itself.
func TestSearchPlansVariedStacks(t *testing.T) {
	vary := []rankings.Variation{{Key: "train.stack", Values: []string{"torchtitan", "megatron-te"}}}
	found := searchPlans(t, "gpipe", plans.Query{Devices: 4, Rows: 5000, Vary: vary}, "model.layers=2", "batch.global=4")
	seen := map[string]bool{}
	for _, s := range configs.Stacks() {
		for _, p := range found.Plans {
			if slices.Contains(p.Set, "train.stack="+s.Name) {
				seen[s.Name] = true
				require.Contains(t, s.Schedules, p.Plan.Schedule)
				require.Contains(t, s.Zero, p.Plan.Zero, p.Set)
			}
		}
	}
	require.Len(t, seen, 2)
}
