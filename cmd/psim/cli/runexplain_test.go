package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// --explain adds the parts of the step to every form of output; without it no output has them.
func TestRunExplain(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := psim(t, "psim run gpipe --explain --json")
	require.Zero(t, code, stderr)
	var got struct {
		Step    float64 `json:"step_time_s"`
		Explain struct {
			ByClass map[string]float64 `json:"by_class_s"`
			Path    map[string]float64 `json:"critical_path_s"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	for _, by := range []map[string]float64{got.Explain.ByClass, got.Explain.Path} {
		var sum float64
		for _, s := range by {
			sum += s
		}
		require.InDelta(t, got.Step, sum, 1e-12)
	}
	stdout, _, code = psim(t, "psim run zero-bubble --explain --out -")
	require.Zero(t, code)
	require.Contains(t, stdout, "  pipeline: messages                                     3.69 ms   0.2 %\n")
	require.Contains(t, stdout, "\npriced by\n  forward\n      times.forward = 29718us (given)\n")
	stdout, _, code = psim(t, "psim run ring-allreduce --explain --csv")
	require.Zero(t, code)
	require.True(t, strings.HasPrefix(stdout, "class,by_class_s,critical_path_s,beside_s\ncollective,"), stdout)
	stdout, _, code = psim(t, "psim run gpipe --json")
	require.Zero(t, code)
	require.NotContains(t, stdout, "explain")
}
