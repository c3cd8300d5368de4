package schedules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
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

// The schedule that is named as lighter takes the same time and holds fewer
// activations, on some rank at least.
func TestLighter(t *testing.T) {
	named := 0
	for _, s := range schedules.Catalog() {
		if s.Lighter == "" {
			continue
		}
		named++
		end := func(name string) time.Duration {
			return ordertest.Relax(t, ordertest.Graph(t, ordertest.Shaped(t, name, s.Example())), ordertest.Unit).End()
		}
		require.Equal(t, end(s.Name), end(s.Lighter), s.Name)
		heavy, light := ordertest.Peaks(t, ordertest.Shaped(t, s.Name, s.Example())), ordertest.Peaks(t, ordertest.Shaped(t, s.Lighter, s.Example()))
		require.NotEqual(t, heavy, light, s.Name)
		for r := range heavy {
			require.LessOrEqual(t, light[r], heavy[r], s.Name)
		}
	}
	require.NotZero(t, named)
}

// A schedule for several stages per rank is, with one, the schedule that it names.
func TestSingle(t *testing.T) {
	named := 0
	for _, s := range schedules.Catalog() {
		if s.Single == "" {
			continue
		}
		named++
		single, err := schedules.Find(s.Single)
		require.NoError(t, err)
		for ranks := 1; ranks <= 6; ranks++ {
			for microbatches := 1; microbatches <= 12; microbatches++ {
				shape := graph.Shape{Ranks: ranks, Virtual: 1, Microbatches: microbatches}
				if s.Check(shape) != nil {
					continue
				}
				want, err := single.Order(shape, nil)
				require.NoError(t, err)
				got, err := s.Order(shape, nil)
				require.NoError(t, err)
				require.Equal(t, want, got, "%s %v", s.Name, shape)
			}
		}
	}
	require.Equal(t, 2, named)
}
