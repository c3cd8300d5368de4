package sim

import (
	"math/rand/v2"
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

// Hundreds of events come out in order while others come in, as in a simulation. (A heap of a few may be
// right although a parent's fifth child is taken for its own.)
func TestHeapOfMany(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var h heap
		for task := range int32(400) {
			h.push(event{ready: time.Duration(rng.Int64N(1 << 40)), task: task})
		}
		for len(h.events) > 0 {
			first := h.pop()
			for _, later := range h.events {
				if !first.before(later) {
					t.Fatalf("seed %d: %v comes before %v", seed, first, later)
				}
			}
			if rng.Int64N(3) == 0 {
				h.push(event{ready: first.ready + 1 + time.Duration(rng.Int64N(1<<40)), task: first.task})
			}
		}
	}
}
