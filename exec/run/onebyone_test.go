package run_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/exectest"
	"psim/exec/run"
)

// One by one no two tasks run at once, except for the ranks of a collective. With two ranks at
// once, their computations do; messages and collectives still run alone.
func TestAtOnce(t *testing.T) {
	g := exectest.Spread{Schedule: "gpipe", Ranks: 3, Replicas: 2}.Job(t, exectest.MiniMLP(t), []int{1, 1, 1}).Graph
	for atOnce := range 4 {
		var mu sync.Mutex
		running, most, beside := 0, 0, false
		trace, err := run.OneByOne(t.Context(), g, func(_ context.Context, i int32) error {
			kind := g.Class(i).Kind
			mu.Lock()
			if !kind.Collective() {
				running++
			}
			most, beside = max(most, running), beside || running > 1 && kind.Message()
			mu.Unlock()
			time.Sleep(2 * time.Millisecond)
			mu.Lock()
			if !kind.Collective() {
				running--
			}
			mu.Unlock()
			return nil
		}, run.Options{AtOnce: atOnce})
		require.NoError(t, err)
		require.Equal(t, max(1, atOnce), most)
		require.False(t, beside)
		for i := range int32(g.Len()) {
			require.Positive(t, trace.Spans[i].Duration())
		}
	}
}
