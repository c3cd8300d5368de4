package parallel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/configs/parallel"
)

func TestTokens(t *testing.T) {
	for value, want := range map[any]int64{
		"15T": 15e12, "1.5T": 15e11, "300B": 300e9, "2 T": 2e12, "4M": 4e6, "8k": 8e3, "8K": 8e3, "7": 7, 1e12: 1e12, "1e12": 1e12, "1.5e3": 1500, int64(123): 123,
		"9.2e0": 0, "0": 0, "0T": 0, "-1": 0, "1.5": 0, "0.5K": 500, "15t": 0, "": 0, "T": 0, 1.5: 0, true: 0,
		"10000000T": 0, "9223372036854775807": 9223372036854775807, "9223372036854775808": 0, int64(0): 0, int64(-4): 0,
	} {
		var n parallel.TokenCount
		err := n.UnmarshalTOML(value)
		require.Equal(t, parallel.TokenCount(want), n, value)
		require.Equal(t, want == 0, err != nil, value)
	}
	require.Equal(t, "1500B", parallel.TokenCount(15e11).TOML())
	require.Equal(t, "300B", parallel.TokenCount(300e9).TOML())
	require.EqualError(t, parallel.Data{Samples: 3, Tokens: 2e12}.Validate(),
		`tokens = "2T": data.samples = 3 is given as well; give one of them`)
	require.EqualValues(t, 3, parallel.Data{Tokens: 2049}.Size(1024))
	require.EqualValues(t, 5, parallel.Data{Samples: 5}.Size(1024))
}

// Whatever is read is at least one token, and is written so that it is read back.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{"15T", "1.5B", "0.001K", "9223372036854775807", "1e9", "2 M"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var n, again parallel.TokenCount
		if n.UnmarshalTOML(text) != nil {
			return
		}
		require.Positive(t, n)
		require.NoError(t, again.UnmarshalTOML(n.TOML()))
		require.Equal(t, n, again)
	})
}
