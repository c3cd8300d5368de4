package published

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// All 92 rows of pre-training with a precision whose model is known are predicted.
func TestBridgeRepresentable(t *testing.T) {
	require.Len(t, replayedTable(t, "megatron-bridge").Replayed, 92)
	for _, r := range rowsOf(t, table("megatron-bridge")) {
		precision, err := r.Value("train.precision")
		require.NoError(t, err)
		require.NotEmpty(t, precision)
	}
}

// What is printed of a configuration twice differs by up to a tenth between releases, in one
// by more, and the table's note names that one.
func TestBridgeContradictions(t *testing.T) {
	printed := map[string][]row{}
	for _, r := range rowsOf(t, table("megatron-bridge")) {
		key := r.group([]string{"model", "system", "gpus", "precision", "global_batch", "micro_batch", "seq", "tp", "pp", "cp", "vp", "ep"})
		printed[key] = append(printed[key], r)
	}
	note := string(table("megatron-bridge").Note)
	for key, rows := range printed {
		faster := func(a, b row) int {
			return int(1000 * (a.number("step_s_derived") - b.number("step_s_derived")))
		}
		ratio := slices.MaxFunc(rows, faster).number("step_s_derived") / slices.MinFunc(rows, faster).number("step_s_derived")
		if ratio > 1.3 {
			require.Contains(t, note, fmt.Sprintf("%.2f", ratio), strings.ReplaceAll(key, "\n", " "))
			require.Contains(t, note, rows[0].text("model"), key)
		}
	}
}
