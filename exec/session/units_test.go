package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/exectest"
	"psim/exec/measure"
	"psim/exec/train"
)

// One unit of all layers trains as a unit of each layer does: as one device with the whole batch.
func TestOneUnitTrains(t *testing.T) {
	for _, set := range []string{"parallel.gather=unit", "parallel.gather=tensor"} {
		c, _, err := Load("exec-mlp", 2, "model.layers=3", "model.hidden=16", "batch.global=8", "schedule.name=ddp", "schedule.stages=1",
			"schedule.microbatches=2", "parallel.data=2", "parallel.zero=3", "parallel.gather_unit=stage", set)
		require.NoError(t, err)
		s := Session{Options: Options{Seed: 1, Measure: measure.Options{
			Devices: exectest.Options(),
			Train:   train.Options{Warmup: 1, Steps: 1}, Repeats: 1, Checks: measure.CheckNames(),
		}}}
		require.NoError(t, s.Run(t.Context(), c))
		require.NoError(t, s.Err())
		require.True(t, s.Main().Result.Checks.Passed)
		require.Len(t, s.Main().Experiment.Staged.Stages, 1)
	}
}
