package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ratios are of each pair, and their median counts.
func TestInTurns(t *testing.T) {
	t.Chdir(t.TempDir())
	// Each says another step every time it runs.
	says := func(name, steps string) side {
		return side{name: name, command: []string{"sh", "-c", `echo >> "$0"
			set -- ` + steps + `
			shift $(($(wc -l < "$0") - 1))
			echo "{\"kind\": \"measured\", \"step_time_median_s\": $1, \"step_time_s\": $1, \"devices\": 1, \"ranks\": [{\"rank\": 0}]}"`, name}}
	}
	var out strings.Builder
	require.NoError(t, inTurns(&out, 3, []side{says("one", "0.2 0.4 0.2"), says("two", "0.21 0.4 0.22")}))
	require.Equal(t, `pair 1: 200 ms, two 210 ms (+5.0 %)
pair 2: 400 ms, two 400 ms (0.0 %)
pair 3: 200 ms, two 220 ms (+10.0 %)

two against one: +5.0 %, the median of 3 pairs (0.0 % to +10.0 %)
`, out.String())
	require.ErrorContains(t, inTurns(&out, 1, []side{{name: "one", command: []string{"sh", "-c", "echo out of luck >&2; exit 1"}}}), "out of luck")
}
