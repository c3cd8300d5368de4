package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results"
)

// calibrate can read the output for a collective by itself. If devices share cores, there is a
// warning.
func TestExecCollective(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	line := "psim exec halving-doubling --gpus 4 --oversubscribe --sizes 8B-64B --repeats 1"
	if long() {
		line = "psim exec halving-doubling --gpus 4 --oversubscribe --sizes 8B-64KiB --repeats 2"
	}
	const doubt = "4 devices that share cores: the times say little about devices of their own"
	stdout, stderr, code := u.psim(t, line)
	require.Zero(t, code, stderr)
	require.NotContains(t, stderr, doubt)
	require.Contains(t, stdout, "\n# warning: "+doubt+"\n")
	u.write(t, "timed.txt", stdout)
	stdout, stderr, code = u.psim(t, "psim calibrate --nccl timed.txt --out link.toml")
	require.Zero(t, code, stderr)
	require.Contains(t, strings.Join(strings.Fields(stdout), " "), "all-reduces over 4 ranks were measured with a warning: "+doubt)
}

// With --json stdout holds nothing but the collective, with its warnings, and calibrate can read it.
func TestExecCollectiveJSON(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	stdout, stderr, code := u.psim(t, "psim exec ring-allgather --gpus 2 --cores-per-worker 1024 --oversubscribe --sizes 8B-128B --repeats 1 --json --quiet")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr)
	var found results.CollectiveSizes
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.Equal(t, 1, found.Schema)
	require.Len(t, found.Sizes, 3)
	require.Equal(t, int64(128), found.Sizes[2].Bytes)
	require.InEpsilon(t, 64/found.Sizes[2].Time, found.Sizes[2].BusBandwidth, 1e-9)
	const doubt = "2 devices that share cores: the times say little about devices of their own"
	require.False(t, found.TimesComparable)
	require.Equal(t, doubt, found.Warnings[0])
	u.write(t, "timed.json", stdout)
	stdout, stderr, code = u.psim(t, "psim calibrate --nccl timed.json --out link.toml")
	require.Zero(t, code, stderr)
	require.Contains(t, strings.Join(strings.Fields(stdout), " "), "measured with a warning: "+doubt)
}
