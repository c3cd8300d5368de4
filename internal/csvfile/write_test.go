package csvfile_test

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/csvfile"
)

// Rows have the bytes that encoding/csv gives them, whatever is in their cells.
func TestWriterIsThatOfCSV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ a,"\n\r\t\\.\x{a0}]{0,4}`))
		var got, want bytes.Buffer
		fast, slow := csvfile.NewWriter(&got, "a,b,c"), csv.NewWriter(&want)
		require.NoError(t, slow.Write([]string{"a", "b", "c"}))
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			n, x, y := rapid.Int64().Draw(t, "number"), cell.Draw(t, "cell"), cell.Draw(t, "another")
			fast.Row(n, x, y)
			require.NoError(t, slow.Write([]string{strconv.FormatInt(n, 10), x, y}))
		}
		require.NoError(t, fast.End())
		slow.Flush()
		require.Equal(t, want.String(), got.String())
	})
}
