package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/results/rankings"
)

// Several numbers of devices are as many searches: each object, folder and row is that of the search for
// one number.
func TestSearchNumbers(t *testing.T) {
	userFolder(t)
	const line = "psim search gpipe --schedules ddp,1f1b --rows 3 --set data.tokens=300B --vary batch.micro=1,2,3,4 --devices "
	stdout, stderr, code := psim(t, line+"4,13,8 --json --out many")
	require.Zero(t, code, stderr)
	var found rankings.PlanSearches
	require.NoError(t, json.Unmarshal([]byte(stdout), &found))
	require.Len(t, found.Searches, 3)
	for i, n := range []string{"4", "13", "8"} {
		stdout, _, code := psim(t, line+n+" --json --out one"+n)
		var one rankings.PlanRanking
		require.NoError(t, json.Unmarshal([]byte(stdout), &one))
		require.Equal(t, len(one.Plans) == 0, code == exitFailed)
		require.Equal(t, one.Plans, found.Searches[i].Plans)
		require.Equal(t, one.Devices, found.Searches[i].Devices)
		require.Equal(t, one.Why, found.Searches[i].Why)
		require.Equal(t, contents(t, "one"+n), contents(t, filepath.Join("many", "devices-"+n)))
	}
	require.Empty(t, found.Searches[1].Plans)

	stdout, stderr, code = psim(t, line+"4,13,8")
	require.Zero(t, code, stderr)
	require.Equal(t, 2, strings.Count(stderr, " devices, "), "of those that have plans to try")
	rows := strings.Split(stdout, "\n")
	require.Contains(t, rows[0], "  devices     step     MFU  tokens/s per device  tokens/s in total      epoch")
	require.True(t, strings.HasPrefix(rows[1], "  4  ") && strings.HasPrefix(rows[2], "  8  "), stdout)
	require.Contains(t, rows[1], " days ")
	require.True(t, strings.HasPrefix(rows[3], "13 devices: no plan: with 13 devices parallel.data can be 13"), stdout)
	require.NotContains(t, stdout, "--set")
	stdout, _, code = psim(t, line+"4,8 --settings all --quiet")
	require.Zero(t, code)
	require.Contains(t, stdout, "settings for 8 devices\n  --set parallel.tensor=1 ")

	stdout, _, code = psim(t, line+"4,13,8 --csv")
	require.Zero(t, code)
	rows = strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, rows, 4)
	require.True(t, strings.HasPrefix(rows[0], "devices,place,step_time_s,"))
	require.True(t, strings.HasPrefix(rows[1], "4,1,0.0") && strings.HasPrefix(rows[2], "13,,,"), stdout)
	stdout, _, code = psim(t, line+"8 --csv")
	require.Zero(t, code)
	require.Equal(t, 4, strings.Count(stdout, "\n"), "all plans of one search")

	stdout, stderr, code = psim(t, line+"17,13 --json")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stdout, `"plans": []`)
	require.Equal(t, "psim: no plan fits in memory\n", stderr)
}
