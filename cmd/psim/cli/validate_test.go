package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// In JSON questions about formulas have numbers, and those about graphs an answer.
func TestValidateJSON(t *testing.T) {
	stdout, stderr, code := psim(t, "psim validate 1.6 2.2 --with W=16 --with B=400 --json")
	require.Zero(t, code, stderr)
	var report struct {
		Questions      []map[string]any
		Passed, Failed int
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Equal(t, []int{2, 0}, []int{report.Passed, report.Failed})
	formula, graphs := report.Questions[0], report.Questions[1]
	require.Equal(t, []any{"1.6", 0.75, 0.75, "s", true}, []any{formula["id"], formula["closed_form"], formula["simulated"], formula["unit"], formula["ok"]})
	require.NotContains(t, formula, "answer")
	require.Equal(t, []any{"2.2", true}, []any{graphs["id"], graphs["ok"]})
	require.NotEmpty(t, graphs["answer"])
	require.NotContains(t, graphs, "closed_form")
	require.NotContains(t, graphs, "simulated")
}

func TestValidateCompletes(t *testing.T) {
	stdout, _, _ := psim(t, "psim __complete validate 4.")
	require.Contains(t, stdout, "4.2\n")
	stdout, _, _ = psim(t, "psim __complete validate --published zero")
	require.Contains(t, stdout, "zero-bubble-2023-table-5\n")
}
