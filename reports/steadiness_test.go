package reports_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/reports"
	"psim/results"
)

// A machine is disturbed where any of the three numbers is above its limit, and the
// warning has those that are.
func TestSteadiness(t *testing.T) {
	for _, c := range []struct {
		of   results.Steadiness
		want string
	}{
		{results.Steadiness{}, ""},
		{results.Steadiness{Spread: 0.08, Slowdown: 0.25, Change: 0.08}, ""},
		{results.Steadiness{Spread: 0.12}, "the machine was disturbed: the steps deviate by 12.0 % (at most 8 % on a quiet machine); something else was running"},
		{results.Steadiness{Slowdown: 1.5, Spread: 0.01}, "a fixed matrix product took 150.0 % longer on average than at best (at most 25 %)"},
		{results.Steadiness{Change: 0.1, Spread: 0.09}, "the steps deviate by 9.0 % (at most 8 % on a quiet machine), the best time of that product changed by 10.0 % meanwhile (at most 8 %)"},
	} {
		require.Equal(t, c.want != "", c.of.Score() > 1, "%+v", c.of)
		require.Contains(t, c.of.Warning(), c.want)
		require.Equal(t, c.want == "", c.of.Warning() == "")
	}
}

// All runs are in the file, and their step times in the table.
func TestAttempts(t *testing.T) {
	r, _, _ := measured(t, "gpipe", 2, 4)
	r.RunsMade, r.Disturbed, r.Steadiness = 2, true, &results.Steadiness{Spread: 0.1}
	r.Attempts = []results.Attempt{
		{Steps: []float64{0.3, 0.1}, StepTime: 0.2, Predicted: 0.1, Disturbed: true, Steadiness: &results.Steadiness{Spread: 0.7}},
		{Steps: r.Steps, StepTime: r.StepTime, Predicted: r.Predicted.StepTime, Disturbed: true, Steadiness: r.Steadiness},
	}
	var b bytes.Buffer
	require.NoError(t, r.WriteJSON(&b))
	again, err := results.ReadResult(&b)
	require.NoError(t, err)
	require.Equal(t, r.Measurement, again.Measurement)
	b.Reset()
	require.NoError(t, reports.WriteResult(&b, r))
	require.Contains(t, b.String(), "  runs           the least disturbed of 2, whose steps took 200 ms, 172 ms\n")
}

// A rank is slow by what its tasks take alone on the fastest replica, and by more than
// steps deviate.
func TestSlowRank(t *testing.T) {
	ranks := func(compute ...float64) (list []results.RankResult) {
		for k, c := range compute {
			list = append(list, results.RankResult{Rank: k, Compute: c})
		}
		return list
	}
	for _, c := range []struct {
		replicas        int
		alone, measured []float64
		deviation       float64
		want            string
	}{
		{1, []float64{1, 3}, []float64{1.1, 3.3}, 0.1, ""},
		{1, []float64{1, 3}, []float64{1, 6}, 0.1, "rank 1 computed 2.00 times as long as its tasks take alone, the others at most 1.00 times: its device was slow"},
		{1, []float64{1, 3}, []float64{1, 6}, 2, ""},
		{1, []float64{1, 6}, []float64{1, 6}, 0, ""},
		{2, []float64{1, 6}, []float64{1, 6}, 0, "rank 1 computed 6.00 times as long as its tasks take alone, the others at most 1.00 times: its device was slow"},
		{2, []float64{1, 5, 1, 5}, []float64{2, 5, 1, 5}, 0, "rank 0 computed 2.00 times as long as its tasks take alone, the others at most 1.00 times: its device was slow"},
		{1, []float64{1, 0}, []float64{1, 2}, 0, ""},
	} {
		r := results.Result{DataParallel: c.replicas, Ranks: ranks(c.measured...), Predicted: &results.Result{Ranks: ranks(c.alone...)},
			Measurement: &results.Measurement{StepTimeStd: c.deviation}}
		require.Equal(t, c.want, r.SlowRankWarning(), c)
	}
	require.Empty(t, results.Result{}.SlowRankWarning())
}
