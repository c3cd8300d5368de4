package csvfile_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"psim/internal/csvfile"
)

// endless is a file of zeros, such as a sparse one.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A line of a limit's length is read, one byte more is refused, however reads fall; and an endless
// line ends a reader.
func TestLimitLines(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{{"", true}, {"\n\n", true}, {"abcd\nabcd", true}, {"abcde", false}, {"ab\nabcde\nx", false}, {"abcd\n\nabcd\n", true}} {
		for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text)), iotest.HalfReader(strings.NewReader(c.text))} {
			data, err := io.ReadAll(csvfile.LimitLines(r, 4))
			if c.ok {
				require.NoError(t, err, "%q", c.text)
				require.Equal(t, c.text, string(data))
			} else {
				require.EqualError(t, err, "a line has more than 4 bytes, which is too many", "%q", c.text)
			}
		}
	}
	_, err := csvfile.NewReader(endless{}, "rank,stream", 4)
	require.EqualError(t, err, "a line has more than 1048576 bytes, which is too many")
}
