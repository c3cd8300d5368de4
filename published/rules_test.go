package published

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Stages have all blocks, and the embedding, the norm and the head as well, in the
// numbers that Megatron gives them: 126 blocks of Llama 3.1 405B in 128 stages leave the
// first with the embedding and the last with norm and head alone. DeepSeek-V3's layouts fill
// the first stage and leave the last what remains, with the prediction of a second token.
func TestPartition(t *testing.T) {
	require.Empty(t, partition(24, 1, 0, false))
	for _, c := range []struct {
		blocks                    int
		fill                      bool
		stages, predictors        int
		first, second, last, sums int
	}{
		{126, false, 32, 0, 4, 4, 5, 129}, {126, false, 128, 0, 1, 1, 2, 129}, {126, false, 64, 0, 2, 2, 3, 129},
		{61, true, 16, 1, 5, 4, 4, 65}, {61, true, 32, 0, 2, 2, 2, 64}, {61, true, 8, 0, 9, 8, 7, 64},
		{94, false, 32, 0, 3, 3, 4, 97}, {94, false, 24, 0, 4, 4, 5, 97}, {48, false, 48, 0, 2, 1, 3, 51}, {36, false, 4, 0, 10, 9, 11, 39},
	} {
		list := strings.Fields(strings.Trim(partition(c.blocks, c.stages, c.predictors, c.fill), "[]"))
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

// Rules and measures that are given what they do not take say so.
func TestRulesRefuse(t *testing.T) {
	for name, rule := range rules {
		_, err := rule(nil)
		require.Error(t, err, name)
		_, err = rule([]any{"x", "y", "z", "u", "v", "w"})
		require.Error(t, err, name)
	}
	r := row{table: &Study{}}
	for _, name := range []string{"attention", "forward", "all_to_all"} {
		_, err := measures[name](r, []any{"x", "y"})
		require.Error(t, err, name)
	}
}

func TestBinary(t *testing.T) {
	require.Equal(t, []string{"8 B", "1000 B", "3 KiB", "16 GiB"}, []string{binary(8), binary(1000), binary(3 << 10), binary(16 << 30)})
}
