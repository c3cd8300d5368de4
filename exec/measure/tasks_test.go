package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
)

// totals makes traces of one task with these times.
func totals(ms ...time.Duration) (list []*graph.Trace) {
	for _, n := range ms {
		list = append(list, &graph.Trace{Spans: []graph.Span{{End: n * time.Millisecond}}})
	}
	return list
}

// A profile has as many rounds as were asked for, and more while most of them took longer than
// the shortest, but at most three times as many.
func TestRoundsOfProfile(t *testing.T) {
	for _, c := range []struct {
		profile Profile
		again   bool
	}{
		{Profile{Alone: totals(100, 100)}, true},
		{Profile{Alone: totals(100, 101, 200)}, false},
		{Profile{Alone: totals(100, 110, 110)}, true},
		{Profile{Alone: totals(110, 110, 110, 100, 100, 100, 100)}, false},
		{Profile{Alone: totals(100, 100, 100), Together: totals(100, 130, 130)}, true},
		{Profile{Alone: totals(100, 130, 130, 130, 130, 130, 130, 130, 130)}, false},
	} {
		again, err := c.profile.another(t.Context(), Rounds{Repeats: 3})
		require.NoError(t, err)
		require.Equal(t, c.again, again, "%d rounds", len(c.profile.Alone))
	}
}
