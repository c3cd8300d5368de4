package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunBoundaries(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := psim(t, "psim run vgg16-cpu-pipeline --boundaries --json")
	require.Zero(t, code, stderr)
	var got struct{ Boundaries []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(stdout), &got))
	require.Equal(t, []map[string]any{
		{"from": 0.0, "to": 1.0, "from_rank": 0.0, "to_rank": 1.0, "direction": "forward", "shape": []any{32.0, 128.0, 16.0, 16.0}, "bytes": 4194304.0, "microbatches": 2.0},
		{"from": 1.0, "to": 0.0, "from_rank": 1.0, "to_rank": 0.0, "direction": "backward", "shape": []any{32.0, 128.0, 16.0, 16.0}, "bytes": 4194304.0, "microbatches": 2.0},
		{"from": 1.0, "to": 2.0, "from_rank": 1.0, "to_rank": 2.0, "direction": "forward", "shape": []any{32.0, 512.0, 1.0, 1.0}, "bytes": 65536.0, "microbatches": 2.0},
		{"from": 2.0, "to": 1.0, "from_rank": 2.0, "to_rank": 1.0, "direction": "backward", "shape": []any{32.0, 512.0, 1.0, 1.0}, "bytes": 65536.0, "microbatches": 2.0},
	}, got.Boundaries)
	stdout, _, code = psim(t, "psim run megatron-deepspeed --boundaries --csv --set parallel.scatter_gather=true")
	require.Zero(t, code)
	require.True(t, strings.HasPrefix(stdout, "from,to,shape,bytes,direction,from_rank,to_rank,microbatches,parts\n0,1,"), stdout)
	stdout, _, code = psim(t, "psim run ddp --boundaries --out -")
	require.Zero(t, code)
	require.Contains(t, stdout, "\nboundaries: none; every rank holds the whole network\n")
	stdout, _, code = psim(t, "psim run ddp --boundaries --json")
	require.Zero(t, code)
	require.Contains(t, stdout, `"boundaries": []`)
	_, stderr, code = psim(t, "psim run course-timeline --boundaries")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "psim: --boundaries: course-timeline has no [model], whose stages would have boundaries\n", stderr)
}
