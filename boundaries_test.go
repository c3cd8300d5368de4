package psim_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/configs"
	"psim/schedules"
	"psim/schedules/graph"
)

// The bytes over all boundaries are those that the graph's messages have, of every
// example and of every schedule.
func TestBoundariesOfConfigurations(t *testing.T) {
	checked := 0
	check := func(name string, sets ...string) {
		c, err := psim.Load(name, sets...)
		require.NoError(t, err)
		p, err := psim.Predict(context.Background(), c)
		if err != nil {
			return // a schedule that does not run this
		}
		boundaries, err := p.Boundaries()
		if p.Experiment.Staged == nil {
			require.EqualError(t, err, name+" has no [model], whose stages would have boundaries")
			return
		}
		require.NoError(t, err)
		checked++
		said, sent := map[string]int64{}, map[string]int64{}
		for _, b := range boundaries {
			said[b.Direction] += b.Bytes * int64(b.Microbatches*p.Result.DataParallel)
		}
		for _, task := range p.Experiment.Graph.Tasks() {
			switch task.Kind {
			case graph.SendForward:
				sent["forward"] += task.Bytes
			case graph.SendBackward:
				sent["backward"] += task.Bytes
			}
		}
		for _, direction := range []string{"forward", "backward"} {
			require.Equal(t, sent[direction], said[direction], "%s %v", name, sets)
		}
	}
	for _, name := range configs.Examples() {
		if name != "auto" && name != "exec" && name != "exec-mlp" {
			check(name)
		}
	}
	for _, s := range schedules.Names() {
		check("gpipe", "schedule.name="+s)
		check("gpipe", "schedule.name="+s, "parallel.data=2", "batch.global=64")
	}
	require.Greater(t, checked, 40)
}
