package reports

import (
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"slices"
)

// writePNG writes a picture with a palette, which makes it a quarter of the size:
// its 256 most frequent colours. What else there is, shades at the edges of
// letters, becomes the nearest of them. Equal pictures become equal bytes.
func writePNG(w io.Writer, picture image.Image) error {
	full := image.NewRGBA(picture.Bounds())
	draw.Draw(full, full.Rect, picture, full.Rect.Min, draw.Src)
	pixels, count := make([]uint32, len(full.Pix)/4), map[uint32]int{}
	for i := range pixels {
		p := full.Pix[4*i:]
		pixels[i] = uint32(p[0])<<16 | uint32(p[1])<<8 | uint32(p[2])
		count[pixels[i]]++
	}
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b uint32) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var palette color.Palette
	for _, c := range frequent[:min(256, len(frequent))] {
		palette = append(palette, rgb(c))
	}
	index := map[uint32]uint8{}
	for _, c := range frequent {
		index[c] = uint8(palette.Index(rgb(c)))
	}
	flat := image.NewPaletted(full.Rect, palette)
	for i, c := range pixels {
		flat.Pix[i] = index[c]
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	return encoder.Encode(w, flat)
}
