package cli

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Text and pictures name FSDP, whose schedule is ddp.
func TestShardedIsNamed(t *testing.T) {
	userFolder(t)
	stdout, stderr, code := psim(t, "psim run ddp --set schedule.name=fsdp --set parallel.data=2 --set batch.global=16 --out o")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "ddp (FSDP): 1 stage, 1 microbatch, 2 data-parallel replicas, predicted\n")
	picture, err := os.ReadFile("o/timeline.svg")
	require.NoError(t, err)
	require.Contains(t, string(picture), ">GPT-2 124M, FSDP, 2 replicas, predicted on 2 A100<")
	stdout, stderr, code = psim(t, "psim run fsdp --json")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, `"schedule": "ddp",`)
	require.Contains(t, stdout, `"fully_sharded": true,`)
	stdout, stderr, code = psim(t, "psim run fsdp --out p")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "FSDP: 1 stage, 1 microbatch, 4 data-parallel replicas, predicted\n")
	require.Regexp(t, `(?m)^  0 .* GB +1 +`, stdout)
	for _, line := range []string{"psim compare o p", "psim plot timeline p --out q.svg"} {
		_, stderr, code = psim(t, line)
		require.Zero(t, code, stderr)
	}
	picture, err = os.ReadFile("q.svg")
	require.NoError(t, err)
	require.Contains(t, string(picture), ">VGG16, FSDP, 4 replicas, predicted on 4 V100<")
}
