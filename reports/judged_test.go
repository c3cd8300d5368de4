package reports_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports"
	"psim/results/judged"
)

// TestJudgedProfile: the table adds up, and what is not known of a profile is said.
func TestJudgedProfile(t *testing.T) {
	last := 3
	classes := []judged.ClassTime{
		{Class: "products", Predicted: 2, Measured: 2.2}, {Class: "between", Predicted: 0.5, Measured: 0.5},
		{Class: "communication", Predicted: 0.1, Measured: 0.9}, {Class: "waiting", Measured: 0.4},
	}
	var all bytes.Buffer
	for _, p := range []judged.Profiled{
		{StepTime: 4, Step: 551, Steps: 1, Ranks: 1, World: 8, Device: "NVIDIA H100 80GB HBM3", Collectives: 7, Found: "by annotations of the device"},
		{StepTime: 4.2, Ranks: 2, Collectives: 7, Messages: 0.5, Found: "as the whole trace"},
		{
			StepTime: 4, Step: 2, Steps: 3, Shortest: 3.9, Longest: 4.1, Ranks: 4, World: 8, Collectives: 40, Matched: 36, Incomplete: 4,
			Transfer: 0.3, Skew: 0.6, Clocks: 0.002, Apart: 1e-5, Last: &last, Waited: 0.5, Found: "by ProfilerStep", Host: true,
		},
		{StepTime: 4, Step: 2, Steps: 1, Ranks: 1, World: 1, Found: "by ProfilerStep"},
	} {
		h := judged.Judgment{Verdict: judged.Slow, Measured: 4, Predicted: 2.6, Profile: &p, ByClass: classes}
		require.NoError(t, reports.WriteJudgment(&all, h, "bf16"))
		all.WriteString("\n")
	}
	golden.Equal(t, "judged-profile.txt", all.Bytes())
}

// TestAssumptionsTitle: an assumption explains a step that lies in the interval that it would have.
func TestAssumptionsTitle(t *testing.T) {
	h := judged.Judgment{
		Verdict: judged.Slow, Measured: 12, Predicted: 8, Interval: &judged.Interval{Low: 7.2, High: 8.8, Coverage: 0.8},
		Assumptions: []judged.Assumption{{Set: []string{"machine.clock=0.7"}, StepTime: 10.8}},
	}
	for step, want := range map[float64]string{
		10.8: "nothing that psim knows explains it alone", 11: "what would explain it", 13.2: "what would explain it",
		13.4: "nothing that psim knows explains it alone",
	} {
		var page bytes.Buffer
		h.Assumptions[0].StepTime = step
		require.NoError(t, reports.WriteJudgment(&page, h, "bf16"))
		require.Contains(t, page.String(), want, step)
	}
	var page bytes.Buffer
	h.Interval = nil
	require.NoError(t, reports.WriteJudgment(&page, h, "bf16"))
	require.NotContains(t, page.String(), "explain")
}
