package understood_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/launch/understood"
)

// TestLongListsAreCut: of thousands of arguments the first are named and the others counted, and no line is long.
func TestLongListsAreCut(t *testing.T) {
	i := &understood.Import{}
	for n := range 20_000 {
		i.Leave(fmt.Sprintf("--flag%d", n), understood.UnknownReason)
		i.Leave(fmt.Sprintf("--other%d", n), strings.Repeat("é", 1000))
	}
	var b strings.Builder
	require.NoError(t, i.WriteText(&b))
	require.Contains(t, b.String(), "--flag39, … and 19960 more\n")
	require.Contains(t, b.String(), "left aside: … and 19960 more, which --json lists\n")
	require.Less(t, b.Len(), 30_000)
	for line := range strings.Lines(b.String()) {
		require.Less(t, len(line), 1000)
	}
	require.True(t, strings.ToValidUTF8(b.String(), "") == b.String())
}
