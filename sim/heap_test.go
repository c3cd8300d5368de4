package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Pushes and pops in any order give what a sorted list gives.
func TestHeapAgainstSort(t *testing.T) {
	compare := func(a, b event) int {
		switch {
		case a.before(b):
			return -1
		case b.before(a):
			return 1
		}
		return 0
	}
	rapid.Check(t, func(t *rapid.T) {
		var h heap
		var list []event
		next := int32(0)
		for range rapid.IntRange(1, 200).Draw(t, "operations") {
			if len(list) > 0 && rapid.IntRange(0, 2).Draw(t, "pop") == 0 {
				require.Equal(t, list[0], h.pop())
				list = list[1:]
				continue
			}
			ev := event{ready: time.Duration(rapid.IntRange(0, 9).Draw(t, "ready")), task: next, cause: -next}
			next = (next*7 + 3) % 1009
			h.push(ev)
			list = append(list, ev)
			slices.SortStableFunc(list, compare)
		}
		for _, want := range list {
			require.Equal(t, want, h.pop())
		}
		require.Empty(t, h.events)
	})
}
