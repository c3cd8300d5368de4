package wrap

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLines(t *testing.T) {
	require.Empty(t, Lines(" \n", 10))
	require.Equal(t, []string{"µs µs", "longword", "a b"}, Lines("µs µs  longword\na b", 5))
	require.Equal(t, "a b\n  c", Text("a b c", 3, "  "))
}

// No word is lost, no line is too long unless it is one word, and no line could
// take the first word of the next.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[a-zµ]{1,12}`)).Draw(t, "words")
		width := rapid.IntRange(1, 20).Draw(t, "width")
		lines := Lines(strings.Join(words, " "), width)
		require.Equal(t, strings.Join(words, " "), strings.Join(lines, " "))
		for i, line := range lines {
			if utf8.RuneCountInString(line) > width {
				require.NotContains(t, line, " ")
			}
			if i > 0 {
				next, _, _ := strings.Cut(line, " ")
				require.Greater(t, utf8.RuneCountInString(lines[i-1]+" "+next), width)
			}
		}
	})
}
