package cli

import (
	_ "embed"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results"
)

// autoTimes is a configuration with schedule.name = "auto".
//
//go:embed testdata/auto.toml
var autoTimes string

func TestAutoResult(t *testing.T) {
	userFolder(t)
	require.NoError(t, os.WriteFile("auto.toml", []byte(autoTimes), 0o644))
	stdout, stderr, code := psim(t, "psim run auto.toml --json")
	require.Zero(t, code, stderr)
	var r results.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &r))
	require.Equal(t, "auto", r.Schedule)
	require.InDelta(t, 0.13, r.Search.Span, 1e-12)
	require.InDelta(t, 0.13, r.Search.LowerBound, 1e-12)
	require.Zero(t, r.Search.Gap)
	require.InDelta(t, 1-0.12/r.Search.Span, r.Bubble.Span, 1e-12)
	require.Len(t, r.Search.Order, 2)
	require.Equal(t, "0F0 0F1 0I0", r.Search.Order[0][:11])

	stdout, _, code = psim(t, "psim run gpipe --json")
	require.Zero(t, code)
	require.NotContains(t, stdout, "search")
}
