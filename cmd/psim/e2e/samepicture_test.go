package e2e

import (
	"bytes"
	"image/png"
	"testing"

	"github.com/stretchr/testify/require"
)

// samePicture reports whether two PNGs show the same: they have the same size, and at most one pixel in
// a thousand differs by more than the rounding of different processors.
func samePicture(t *testing.T, want, got []byte) bool {
	t.Helper()
	a, err := png.Decode(bytes.NewReader(want))
	require.NoError(t, err)
	b, err := png.Decode(bytes.NewReader(got))
	require.NoError(t, err)
	if a.Bounds() != b.Bounds() {
		return false
	}
	const shade = 24 << 8 // of 256 in each channel
	apart := func(x, y uint32) bool { return max(x, y)-min(x, y) > shade }
	size, differ := a.Bounds().Size(), 0
	for y := range size.Y {
		for x := range size.X {
			r, g, b1, _ := a.At(x, y).RGBA()
			r2, g2, b2, _ := b.At(x, y).RGBA()
			if apart(r, r2) || apart(g, g2) || apart(b1, b2) {
				differ++
			}
		}
	}
	return differ <= size.X*size.Y/1000
}
