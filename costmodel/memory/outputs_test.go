package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
	"psim/costmodel/memory"
	"psim/schedules/graph"
)

// What a stage keeps of a result that it has sent is freed by its backward: nothing, all of
// it, or a part, whose whole a tensor group gathers for the backward.
func TestKeptOutputs(t *testing.T) {
	type change struct{ sent, backwardStart, backwardEnd int64 }
	changes := func(sets ...string) (c change) {
		config, err := configs.Load("megatron-deepspeed", append([]string{"train.stack=megatron-2023", "parallel.tensor=2"}, sets...)...)
		require.NoError(t, err)
		experiment, err := config.Build()
		require.NoError(t, err)
		g := experiment.Graph
		ledger := memory.NewLedger(experiment.Staged, g)
		for i := range int32(g.Len()) {
			task := new(g.Task(i))
			switch start, end := ledger.Task(task); {
			case task.Stage != 0 || task.Microbatch != 1:
			case task.Kind == graph.SendForward:
				c.sent = end
			case task.Kind == graph.Backward:
				c.backwardStart, c.backwardEnd = start, end
			}
		}
		return c
	}
	freed := changes()
	output := -freed.sent
	require.Positive(t, output)
	for _, test := range []struct {
		keep           string
		stays, gathers int64
	}{{"false", 0, 0}, {"true", output, 0}, {"partitioned", output / 2, output}} {
		want := change{test.stays - output, freed.backwardStart + test.gathers, freed.backwardEnd - test.stays - test.gathers}
		require.Equal(t, want, changes("memory.keep_outputs="+test.keep), test.keep)
	}
	for _, whole := range []string{"parallel.tensor=1", "parallel.sequence=true"} { // of which no device has a part, or each one
		require.Equal(t, changes(whole, "memory.keep_outputs=true"), changes(whole, "memory.keep_outputs=partitioned"), whole)
	}
}
