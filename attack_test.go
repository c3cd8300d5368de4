package psim_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/internal/ram"
)

// Communication that takes longer than can be added, and graphs that do not fit, are
// refused, and keys without effect are named.
func TestAttackRefused(t *testing.T) {
	const hours = " would take more than 27778 hours; check "
	for _, c := range []struct {
		file, want string
		sets       []string
	}{
		{"base_coll", "machine.link: the ALL_REDUCE of 1.00 GB over 8 ranks" + hours + "bandwidth", []string{"machine.link.bandwidth=1B/s"}},
		{"base_modelcustom", "machine.link: the ALL_REDUCE of 1.05 MB over 2 ranks" + hours + "collective_call", []string{"machine.link.collective_call=28000h"}},
		{"base_modelcustom", "machine.link: the ALL_REDUCE of 1.05 MB over 2 ranks" + hours + "collective_call", []string{"machine.link.collective_call=1000000h"}},
		{"base_modelcustom", "schedule: the graph would have about 1.8e+09 tasks and need about 756 GB of memory, but only ", []string{"model.layers=1000", "parallel.zero=2", "parallel.bucket=tensor", "schedule.microbatches=100000", "batch.global=200000"}},
	} {
		if ram.Free() > 600<<30 {
			t.Skip("this machine has memory for the last one")
		}
		config, err := psim.Load("testdata/attack/"+c.file+".toml", c.sets...)
		require.NoError(t, err)
		_, err = psim.Predict(context.Background(), config)
		require.ErrorContains(t, err, c.want)
	}
	config, err := psim.Load("testdata/attack/base_coll.toml", "machine.link.algorithm=tree")
	require.NoError(t, err)
	p, err := psim.Predict(context.Background(), config)
	require.NoError(t, err)
	require.Len(t, p.Result.Warnings, 1)
	require.Contains(t, p.Result.Warnings[0], "machine.link.algorithm: no effect here")
}

// Modules that predict more tokens share one table of embeddings on their rank, and a backward is
// cut once for each of its buckets of gradients.
func TestAttackPredictors(t *testing.T) {
	config, err := psim.Load("testdata/attack/predictors.toml", "parallel.bucket=tensor")
	require.NoError(t, err)
	p, err := psim.Predict(context.Background(), config)
	require.NoError(t, err)
	require.Empty(t, p.Result.Warnings)
}
