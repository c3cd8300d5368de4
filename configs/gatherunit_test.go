package configs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// One unit of all layers is gathered in one piece: memory then peaks at the whole network and its
// gradients, and as many bytes are sent. Without other replicas nothing is gathered, and units make
// no difference to its time.
func TestGatherUnits(t *testing.T) {
	for _, sets := range [][]string{
		{"vgg16-cpu-fsdp"}, {"vgg16-cpu-fsdp", "parallel.gather=tensor"}, {"vgg16-cpu-fsdp", "parallel.overlap=true"},
		{"fsdp"}, {"fsdp", "parallel.collectives=gloo"}, {"ddp", "parallel.zero=3", "model.tied=false"},
	} {
		each, blocks := example(t, sets[0], sets[1:]...)
		one, stage := example(t, sets[0], append(sets[1:], "parallel.gather_unit=stage")...)
		require.Len(t, one.Staged.Stages, 1)
		require.Len(t, each.Staged.Stages, len(each.Staged.Network.Layers))
		whole := one.Staged.Stages[0].Parameters * one.Staged.PerParameter.Parameter
		require.InDelta(t, blocks.Ranks[0].PersistentMemory, stage.Ranks[0].PersistentMemory, 1e3, "but for padding: %v", sets)
		require.GreaterOrEqual(t, stage.Ranks[0].PeakMemory-stage.Ranks[0].PersistentMemory, 2*whole, "%v", sets)
		require.Greater(t, stage.Ranks[0].PeakMemory, blocks.Ranks[0].PeakMemory, "%v", sets)
		require.InEpsilon(t, blocks.Ranks[0].SentBytes, stage.Ranks[0].SentBytes, 1e-3, "%v", sets)
	}
	_, want := example(t, "vgg16-cpu-fsdp", "parallel.data=1", "batch.global=64")
	_, got := example(t, "vgg16-cpu-fsdp", "parallel.data=1", "batch.global=64", "parallel.gather_unit=stage")
	require.Equal(t, want.StepTime, got.StepTime)
	c, err := configs.Load("vgg16-cpu-fsdp", "parallel.gather_unit=stage")
	require.NoError(t, err)
	require.Equal(t, 4.0, c.Tasks()/5, "a pass of the whole network for every replica")
	for set, want := range map[string]string{
		"parallel.zero=2":          "gather_unit = \"stage\": only zero = 3 gathers layers to compute with them, and zero = 2; set zero = 3, or gather_unit = \"block\"",
		"parallel.gather_unit=all": "gather_unit = \"all\": must be block or stage",
	} {
		require.ErrorContains(t, failure(configs.Load("vgg16-cpu-fsdp", "parallel.gather_unit=stage", set)), want)
	}
}
