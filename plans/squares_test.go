package plans_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim"
	"psim/internal/units"
	"psim/plans"
)

// Every square of the map has a plan that fits, if there is one: of the best plans, or the best of
// those that promise most, which takes as long as it says. A square without has none that fits.
func TestMapSquares(t *testing.T) {
	c, err := psim.Load("gpipe", "machine.device=rtx-2080ti", "batch.global=128")
	require.NoError(t, err)
	q := few
	q.Points, q.Map, q.Fix = true, []string{"stages", "micro"}, nil
	search := func(rows int) *plans.Answer {
		q.Rows = rows
		found, err := plans.Search(context.Background(), c, q, nil)
		require.NoError(t, err)
		return found
	}
	one, all := search(1), search(100_000)
	type square [2]string
	steps := map[square][]time.Duration{} // of all plans that fit
	squares := map[square]bool{}
	for _, p := range all.Points {
		at := square{p.Plan.Shown("stages"), p.Plan.Shown("micro")}
		squares[at] = true
		if p.Simulated && p.Fits {
			steps[at] = append(steps[at], p.StepTime)
		}
	}
	known := map[square]time.Duration{}
	for _, s := range one.Squares {
		known[square{s.Across, s.Up}] = units.Seconds(s.StepTime)
	}
	require.Greater(t, len(known), len(squares)/2)
	unfit := 0
	for at := range squares {
		switch step, found := known[at]; {
		case len(steps[at]) == 0:
			require.Zero(t, step, at)
			unfit++
		case found:
			require.Contains(t, steps[at], step, at)
		default:
			require.Contains(t, steps[at], units.Seconds(one.Plans[0].StepTime), "only the best plan is settled")
		}
	}
	require.Positive(t, unfit, "the test needs a square in which nothing fits")
}

// Where nearly all plans of a square need too much memory, the one that fits is found nevertheless.
func TestMapSquaresWithLittleMemory(t *testing.T) {
	found := searchPlans(t, "llama3-70b", plans.Query{
		Devices: 64, Margin: 0.13, Rows: 1, Points: true, Map: []string{"tensor", "stages"},
	})
	fit := map[[2]string]float64{}
	for _, s := range found.Squares {
		fit[[2]string{s.Across, s.Up}] = s.StepTime
	}
	require.Positive(t, fit[[2]string{"4", "2"}])
	step, decided := fit[[2]string{"2", "4"}]
	require.True(t, decided)
	require.Zero(t, step, "none fits")
}
