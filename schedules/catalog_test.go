package schedules_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules"
)

// Every row of the catalog says all that lists and the gallery print, and has an
// example.
func TestRowsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range schedules.Catalog() {
		require.Regexp(t, `^[a-z0-9]+(-[a-z0-9]+)*$`, s.Name)
		require.False(t, seen[s.Name], s.Name)
		seen[s.Name] = true
		for column, text := range map[string]string{"Summary": s.Summary, "Bubble": s.Bubble, "Memory": s.Memory, "Paper": s.Paper} {
			require.Regexp(t, `^[^\s.](.*[^\s.])?$`, text, "%s of %s", column, s.Name)
		}
		require.LessOrEqual(t, len(s.Summary), 80, s.Name)
		require.Regexp(t, `^[A-Z][^\n]{60,}[^ ]\.$`, s.About, "%s needs two or three sentences that say what it does and when to use it", s.Name)
		require.NoError(t, s.Check(s.Example()), s.Name)
	}
}
