package exec_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec"
)

// One by one no two tasks meet, but for the ranks of a collective; of two ranks at once
// what they compute does, and messages and collectives are alone all the same.
func TestAtOnce(t *testing.T) {
	g := mode{schedule: "gpipe", ranks: 3, replicas: 2}.job(t, miniMLP(t), []int{1, 1, 1}).Graph
	for atOnce := range 4 {
		var mu sync.Mutex
		running, most, beside := 0, 0, false
		trace, err := exec.OneByOne(t.Context(), g, func(_ context.Context, i int32) error {
			kind := g.Task(i).Kind
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
		}, exec.RunOptions{AtOnce: atOnce})
		require.NoError(t, err)
		require.Equal(t, max(1, atOnce), most)
		require.False(t, beside)
		for i := range int32(g.Len()) {
			require.Positive(t, trace.Span(i).Duration())
		}
	}
}
