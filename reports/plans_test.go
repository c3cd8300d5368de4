package reports_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports"
	"psim/reports/picture"
	"psim/results/rankings"
)

// plans are a few schedules and numbers of microbatches.
func plans(t testing.TB, capacity int64) rankings.Ranking {
	var p rankings.Ranking
	for _, name := range []string{"gpipe", "1f1b", "model-parallel"} {
		for _, m := range []int{2, 4, 8} {
			c := times{f: 80*ms/time.Duration(m) + 2*ms, b: 160 * ms / time.Duration(m), activation: 8e9 / int64(m), resident: 1e9}
			limits := []int64{capacity, capacity, capacity, capacity}
			if capacity == 0 {
				limits = nil
			}
			r := result(run(t, name, 4, m, c), limits)
			p.Plans = append(p.Plans, rankings.NewCandidate(r, []string{"schedule.name=" + name}, 0))
		}
	}
	p.Evaluated = len(p.Plans)
	p.Sort()
	return p
}

func pareto(t testing.TB, capacity int64) picture.ParetoFigure {
	return picture.ParetoFigure{Title: "plans", Plans: plans(t, capacity).Plans, Capacity: capacity}
}

// A row says what its settings do to [times].
func TestPlansSayDividedTimes(t *testing.T) {
	p := rankings.Ranking{}
	for _, by := range []float64{0, 2, 0.25} {
		p.Plans = append(p.Plans, rankings.NewCandidate(result(run(t, "gpipe", 4, 2, unit()), nil), []string{"a=b"}, by))
	}
	var text bytes.Buffer
	require.NoError(t, reports.WriteRanking(&text, p, 3))
	rows := strings.Split(text.String(), "\n")
	require.True(t, strings.HasSuffix(rows[1], "  unknown"), rows[1])
	require.True(t, strings.HasSuffix(rows[2], "  times divided by 2"), rows[2])
	require.True(t, strings.HasSuffix(rows[3], "  times multiplied by 4"), rows[3])
}

func TestPlans(t *testing.T) {
	p := plans(t, 7e9)
	for i, plan := range p.Plans[1:] {
		before := p.Plans[i]
		require.False(t, plan.FitsMemory && !before.FitsMemory, "what fits comes first")
		if plan.FitsMemory {
			require.LessOrEqual(t, before.StepTime, plan.StepTime)
		}
	}
	require.True(t, p.Plans[0].FitsMemory)
	require.False(t, p.Plans[len(p.Plans)-1].FitsMemory)
	var table, saved bytes.Buffer
	require.NoError(t, reports.WriteRanking(&table, p, 4))
	golden.Equal(t, "plans.txt", table.Bytes())
	require.NoError(t, p.WriteJSON(&saved))
	require.NotContains(t, saved.String(), "seconds")
	for _, key := range []string{`"evaluated": 9`, `"pruned": 0`, `"set": [`, `"settings": [`, `"kind": "predicted"`} {
		require.Contains(t, saved.String(), key)
	}
	var again rankings.Ranking
	require.NoError(t, json.Unmarshal(saved.Bytes(), &again))
	require.Equal(t, p, again)

	table.Reset()
	require.NoError(t, reports.WriteRanking(&table, rankings.Ranking{Pruned: 3}, 20))
	require.Contains(t, table.String(), "no plan fits: of all 3,")
	none := plans(t, 1e9)
	table.Reset()
	require.NoError(t, reports.WriteRanking(&table, none, 20))
	require.Contains(t, table.String(), "none fits in memory; the least is needed with --set schedule.name=")
	require.NotContains(t, table.String(), "interrupted")
	none.Evaluated, none.Pruned, none.Partial = 1, 2, true
	table.Reset()
	require.NoError(t, reports.WriteRanking(&table, none, 20))
	require.Contains(t, table.String(), "\ninterrupted: of 3 plans decided until then none fits in memory; the least is needed with --set schedule.name=")
}

// Nothing is known of the memory of plans that could not be simulated.
func TestPlansTooLarge(t *testing.T) {
	var text strings.Builder
	p := rankings.PlanRanking{Space: 5, PrunedBy: map[string]int{rankings.TooLarge: 2, "parameters do not fit": 3}, Pruned: 5}
	require.NoError(t, reports.WritePlanRanking(&text, p, false))
	require.Contains(t, text.String(), "no plan that can be simulated here fits in memory; the graphs of 2 plans need more memory")
	require.NotContains(t, text.String(), "smaller model")
}

func TestParetoOfNothing(t *testing.T) {
	require.ErrorContains(t, picture.Pareto(io.Discard, picture.PNG, picture.ParetoFigure{}), "nothing to draw")
}
