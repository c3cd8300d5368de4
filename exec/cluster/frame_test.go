package cluster

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A frame is read as it was written, and a truncated frame is not read at all.
func TestFrames(t *testing.T) {
	var b bytes.Buffer
	list := []frame{{message, "step 7/SF 13", []byte("tensor")}, {bye, "", nil},
		{message, strings.Repeat("k", longestKey), bytes.Repeat([]byte("x"), 2*readAtOnce+1)}}
	for _, f := range list {
		require.NoError(t, f.writeTo(&b))
	}
	whole := b.Bytes()
	r := bufio.NewReader(bytes.NewReader(whole))
	for _, f := range list {
		g, err := readFrame(r, longestFrame)
		require.NoError(t, err)
		require.True(t, f.kind == g.kind && f.key == g.key && bytes.Equal(f.data, g.data))
	}
	_, err := readFrame(r, longestFrame)
	require.Equal(t, io.EOF, err)
	for n := 1; n < len(list[0].head())+len(list[0].data); n++ {
		_, err := readFrame(bufio.NewReader(bytes.NewReader(whole[:n])), longestFrame)
		require.Equal(t, io.ErrUnexpectedEOF, err)
	}
	require.ErrorContains(t, frame{key: strings.Repeat("k", longestKey+1)}.writeTo(io.Discard), "at most")
}

// Any input is read as a frame or refused. A frame that only claims to be large takes little
// memory.
func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	frame{message, "step 7/SF 13", []byte("tensor")}.writeTo(&b)
	f.Add(b.Bytes())
	f.Add([]byte{message, 0, 0xff, 0xff, 0xff, 0xff, 0x1f})
	f.Add([]byte{99, 0, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		r := bufio.NewReader(bytes.NewReader(input))
		for {
			got, err := readFrame(r, longestFrame)
			if err != nil {
				return
			}
			require.LessOrEqual(t, len(got.key)+len(got.data), len(input))
			var again bytes.Buffer
			require.NoError(t, got.writeTo(&again))
			back, err := readFrame(bufio.NewReader(&again), longestFrame)
			require.NoError(t, err)
			require.Equal(t, got.key, back.key)
			require.True(t, bytes.Equal(got.data, back.data))
		}
	})
}
