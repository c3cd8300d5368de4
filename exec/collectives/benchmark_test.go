package collectives_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
	"psim/exec/collectives"
	"psim/schedules/collective"
)

// A collective that lacks any of its messages leaves wrong numbers, and they are counted.
func TestWrongNumbers(t *testing.T) {
	devices, err := backend.Open(4, backend.Options{Oversubscribe: true})
	require.NoError(t, err)
	defer backend.Close(devices)
	for _, name := range collective.Names() {
		call := collective.Call{Collective: name, Ranks: 4, Length: 64}
		moves, err := call.Moves()
		require.NoError(t, err)
		r := collectives.Benchmark{Call: call}
		for missing := range moves {
			wrong, err := r.WrongWithout(t.Context(), devices, func(i int32) bool { return i == int32(missing) })
			require.NoError(t, err)
			require.Positive(t, wrong, "%s without message %d", name, missing)
		}
		wrong, err := r.WrongWithout(t.Context(), devices, func(int32) bool { return false })
		require.NoError(t, err)
		require.Zero(t, wrong)
	}
}
