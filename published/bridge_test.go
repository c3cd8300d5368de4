package published

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs"
)

// All 92 rows of pre-training with a precision, whose model is one of four, are configurations.
func TestBridgeRepresentable(t *testing.T) {
	list := bridgeRecords()
	require.Len(t, list, 92)
	for _, r := range list {
		made := r.bridge()
		c, err := configs.Parse("table", []byte(made.configuration()))
		require.NoError(t, err, made.text("row"))
		_, err = c.Build()
		require.NoError(t, err, made.text("row"))
		require.NotEmpty(t, made.text("train.precision"))
	}
}

// What is printed of a configuration twice differs by up to a tenth between releases, in one
// by more, and the table's note names that one.
func TestBridgeContradictions(t *testing.T) {
	printed := map[string][]record{}
	for _, r := range bridgeRecords() {
		var key []string
		for _, column := range []string{"model", "system", "gpus", "precision", "global_batch", "micro_batch", "seq", "tp", "pp", "cp", "vp", "ep"} {
			key = append(key, r.text(column))
		}
		printed[strings.Join(key, " ")] = append(printed[strings.Join(key, " ")], r)
	}
	for key, rows := range printed {
		faster := func(a, b record) int { return int(1000 * (a.number("step_s_derived") - b.number("step_s_derived"))) }
		ratio := slices.MaxFunc(rows, faster).number("step_s_derived") / slices.MinFunc(rows, faster).number("step_s_derived")
		if ratio > 1.3 {
			require.Contains(t, megatronBridge().Note, fmt.Sprintf("%.2f", ratio), key)
			require.Contains(t, megatronBridge().Note, rows[0].text("model"), key)
		}
	}
}

// Stages have all blocks, and the embedding, the norm and the head beside them, in the
// numbers that Megatron gives them: 126 blocks of Llama 3.1 405B in 128 stages leave the
// first with the embedding and the last with norm and head alone. DeepSeek-V3's layouts fill
// the first stage and leave the last what remains, beside the prediction of a second token.
func TestBridgePartition(t *testing.T) {
	for _, c := range []struct {
		model                     bridgeModel
		stages, predictors        int
		first, second, last, sums int
	}{
		{bridgeModel{blocks: 126}, 32, 0, 4, 4, 5, 129}, {bridgeModel{blocks: 126}, 128, 0, 1, 1, 2, 129}, {bridgeModel{blocks: 126}, 64, 0, 2, 2, 3, 129},
		{bridgeModel{blocks: 61, uneven: true}, 16, 1, 5, 4, 4, 65}, {bridgeModel{blocks: 61, uneven: true}, 32, 0, 2, 2, 2, 64}, {bridgeModel{blocks: 61, uneven: true}, 8, 0, 9, 8, 7, 64},
		{bridgeModel{blocks: 94}, 32, 0, 3, 3, 4, 97}, {bridgeModel{blocks: 94}, 24, 0, 4, 4, 5, 97}, {bridgeModel{blocks: 48}, 48, 0, 2, 1, 3, 51}, {bridgeModel{blocks: 36}, 4, 0, 10, 9, 11, 39},
	} {
		list := c.model.partition(c.stages, c.predictors)
		sum := 0
		for _, n := range list {
			i, err := strconv.Atoi(n)
			require.NoError(t, err)
			sum += i
		}
		require.Equal(t, c.sums, sum, c)
		require.Equal(t, []string{strconv.Itoa(c.first), strconv.Itoa(c.second), strconv.Itoa(c.last)}, []string{list[0], list[1], list[c.stages-1]}, c)
	}
}
