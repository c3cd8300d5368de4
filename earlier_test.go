package psim_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"psim"
)

// Results of the time before experts on other devices, contexts and blocks of several kinds
// keep the values of all their fields, whether or not the new keys are given what they stand
// for. testdata/earlier was written by `psim run --json` of revision 436a2a2; step times are
// later by what updates convert in mixed precision, and sums of biases take with Megatron's
// kernels, gathers and sums of ZeRO 3 take turns, and sums share links with messages. Norms of
// eager kernels keep their input in fp32. Hosts took nothing then to launch a kernel, whatever
// model.kernels said.
func TestEarlierResults(t *testing.T) {
	data, err := os.ReadFile("testdata/earlier/results.jsonl")
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	cases := 0
	for ; lines.Scan(); cases++ {
		var earlier struct {
			Set    []string `json:"set"`
			Result any      `json:"result"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &earlier))
		for _, given := range [][]string{nil, {"parallel.expert=1", "parallel.context=1", "train.recompute_layers=0"}} {
			sets := slices.Concat([]string{"machine.host.operation=0us"}, earlier.Set, given)
			if slices.Contains(sets, "parallel.zero=1") || slices.Contains(sets, "parallel.zero=2") {
				sets = append(sets, "parallel.gather_updated=stage") // all at once, then
			}
			c, err := psim.Load("testdata/earlier/machine.toml", sets...)
			require.NoError(t, err)
			p, err := psim.Predict(context.Background(), c)
			require.NoError(t, err)
			text, err := json.Marshal(p.Result)
			require.NoError(t, err)
			var now any
			require.NoError(t, json.Unmarshal(text, &now))
			requireKept(t, fmt.Sprint(earlier.Set), earlier.Result, now)
		}
	}
	require.NoError(t, lines.Err())
	require.Equal(t, 14, cases)
}

// requireKept wants every field of an earlier value, and lists of the same length.
func requireKept(t *testing.T, at string, earlier, now any) {
	t.Helper()
	switch earlier := earlier.(type) {
	case map[string]any:
		require.IsType(t, earlier, now, at)
		for key, value := range earlier {
			requireKept(t, at+" "+key, value, now.(map[string]any)[key])
		}
	case []any:
		require.IsType(t, earlier, now, at)
		require.Len(t, now, len(earlier), at)
		for i, value := range earlier {
			requireKept(t, fmt.Sprint(at, " ", i), value, now.([]any)[i])
		}
	default:
		require.Equal(t, earlier, now, at)
	}
}
