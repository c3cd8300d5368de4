package results_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results"
)

// A result with figures that cannot be is refused, and a name in it stays in one line.
func TestImpossible(t *testing.T) {
	const text = `{"kind": "predicted", "name": "a\nb", "schedule": "gpipe", "step_time_s": 1, "makespan_s": 1,
		"ranks": [{"rank": 0, "compute_s": 1}]%s}`
	for figure, want := range map[string]string{
		"":                      "",
		`, "devices": 4`:        "",
		`, "devices": -8`:       "devices, mfu or hfu is negative",
		`, "mfu": -0.1`:         "devices, mfu or hfu is negative",
		`, "hfu": -0.1`:         "devices, mfu or hfu is negative",
		`, "memory_margin": 5`:  "memory_margin is not a fraction from 0 to below 1",
		`, "memory_margin": -1`: "memory_margin is not a fraction from 0 to below 1",
	} {
		r, err := results.ReadResult(strings.NewReader(fmt.Sprintf(text, figure)))
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, `a\nb`, r.Name)
	}
}
