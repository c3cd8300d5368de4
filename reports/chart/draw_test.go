package chart

import (
	"bytes"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"pgregory.net/rapid"
)

// No two of 24 series look alike.
func TestLooksDiffer(t *testing.T) {
	seen := map[draw.GlyphStyle]bool{}
	for i := range 3 * series {
		look := Look(i, 3)
		require.False(t, seen[look], i)
		seen[look] = true
	}
	require.Len(t, seen, 24)
}

// A PNG has at most 256 colours: the most frequent stay as they are, the others
// become the nearest of them.
func TestPNGPalette(t *testing.T) {
	full := image.NewRGBA(image.Rect(0, 0, 300, 2))
	for x := range 300 { // 300 greens and blues; the first 200 twice
		full.Set(x, 0, RGB(uint32(x)*0x55))
		full.Set(x, 1, RGB(uint32(x%200)*0x55))
	}
	var b, again bytes.Buffer
	require.NoError(t, encodePNG(&b, full))
	require.NoError(t, encodePNG(&again, full))
	require.Equal(t, b.Bytes(), again.Bytes())
	decoded, err := png.Decode(&b)
	require.NoError(t, err)
	palette := decoded.(*image.Paletted).Palette
	require.Len(t, palette, 256)
	for x := range 300 {
		require.Equal(t, palette.Convert(full.At(x, 0)), decoded.At(x, 0))
		if x < 200 {
			require.Equal(t, full.At(x, 0), decoded.At(x, 0))
		}
	}
}

// labels lists those of an axis's ticks.
func labels(a plot.Axis) []string {
	var list []string
	for _, tick := range a.Tick.Marker.Ticks(a.Min, a.Max) {
		list = append(list, tick.Label)
	}
	return list
}

func TestAxes(t *testing.T) {
	var a plot.Axis
	Time(&a, "time", 93700*time.Microsecond, 10)
	require.Equal(t, "time (ms)", a.Label.Text)
	require.Equal(t, []string{"0", "10", "20", "30", "40", "50", "60", "70", "80", "90"}, labels(a))
	Time(&a, "time", 1, 10)
	require.Equal(t, "time (ns)", a.Label.Text)
	require.Equal(t, "1.0", labels(a)[10])
	Time(&a, "time", 250*time.Hour, 10)
	require.Equal(t, "time (h)", a.Label.Text)
	Bytes(&a, Scale{Label: "memory", High: 1500e6, Intervals: 6})
	require.Equal(t, "memory (GB)", a.Label.Text)
	require.Equal(t, []string{"0.0", "0.5", "1.0", "1.5"}, labels(a))
	Numbers(&a, Scale{Label: "share", High: 2.2e-7, Intervals: 3})
	require.Equal(t, []string{"0", "1e-07", "2e-07"}, labels(a))
	Numbers(&a, Scale{Label: "time", High: 7, Intervals: 10})
	require.Equal(t, "time", a.Label.Text)
	require.Len(t, labels(a), 8)
	Logarithmic(&a, "predicted", 45, 2100)
	require.Equal(t, []string{"50", "100", "200", "500", "1,000", "2,000"}, labels(a))
	Logarithmic(&a, "predicted", 0.9, 20000)
	require.Equal(t, []string{"1", "10", "100", "1,000", "10,000"}, labels(a))
}

func TestLegendWraps(t *testing.T) {
	var f Figure
	for range 5 {
		f.Explain("six letters and more", Swatch{RGB(Ink)})
	}
	w := f.legend[0].width()
	require.Len(t, wrap(f.legend, 5*w), 1)
	require.Len(t, wrap(f.legend, 5*w-entrySpace), 1, "no space after the last")
	require.Len(t, wrap(f.legend, 5*w-entrySpace-1), 2)
	require.Len(t, wrap(f.legend, 1), 5)
	require.Empty(t, wrap(nil, 100))
}

// Of what happens within a grain the highest level and the last are drawn, and
// no point on the way.
func TestSteps(t *testing.T) {
	p := plot.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 10, 0, 10
	s := Steps{XYs: plotter.XYs{{X: 0, Y: 1}, {X: 3.1, Y: 2}, {X: 3.2, Y: 9}, {X: 3.3, Y: 4}, {X: 6, Y: 4}, {X: 8, Y: 6}}, LineStyle: Stroke(RGB(Ink), 1), Grain: 1}
	var c recorder.Canvas
	s.Plot(draw.NewCanvas(&c, 10, 10), p)
	var line vg.Path
	for _, a := range c.Actions {
		if stroke, ok := a.(*recorder.Stroke); ok {
			line = stroke.Path
		}
	}
	var points []vg.Point
	for _, component := range line {
		points = append(points, component.Pos)
	}
	require.Equal(t, []vg.Point{{X: 0, Y: 1}, {X: 3, Y: 1}, {X: 3, Y: 9}, {X: 3, Y: 4}, {X: 8, Y: 4}, {X: 8, Y: 6}, {X: 10, Y: 6}}, points)
}

// A label goes to another corner where it would leave the picture, cover another point or an
// earlier label, or be below another labelled point.
func TestLabelsGiveWay(t *testing.T) {
	p := plot.New()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 100, 0, 100
	l := Labels{XYs: plotter.XYs{{X: 50, Y: 50}, {X: 1, Y: 60}, {X: 70, Y: 2}, {X: 20, Y: 20}, {X: 15, Y: 12}, {X: 86, Y: 70}, {X: 80, Y: 70}}, Texts: []string{"a", "b", "c", "d", "e", "f", "g"}, Others: plotter.XYs{{X: 43, Y: 41}}}
	var c recorder.Canvas
	l.Plot(draw.NewCanvas(&c, 100, 100), p)
	left, below := map[string]bool{}, map[string]bool{}
	for _, a := range c.Actions {
		if text, ok := a.(*recorder.FillString); ok {
			i := slices.Index(l.Texts, text.String)
			left[text.String] = float64(text.Point.X) < l.XYs[i].X
			below[text.String] = float64(text.Point.Y) < l.XYs[i].Y
		}
	}
	require.Equal(t, map[string]bool{"a": false, "b": false, "c": true, "d": false, "e": true, "f": false, "g": true}, left)
	require.Equal(t, map[string]bool{"a": true, "b": true, "c": false, "d": true, "e": false, "f": true, "g": true}, below)
}

// The lines of a hatch stay within their rectangle, and go from edge to edge.
func TestHatchStaysInside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.Float64Range(0, 300)
		low := vg.Point{X: vg.Length(length.Draw(t, "x")), Y: vg.Length(length.Draw(t, "y"))}
		r := vg.Rectangle{Min: low, Max: vg.Point{X: low.X + vg.Length(length.Draw(t, "w")), Y: low.Y + vg.Length(length.Draw(t, "h"))}}
		for _, slope := range []vg.Length{1, -1, 0} {
			lines := hatchLines(r, slope)
			require.GreaterOrEqual(t, len(lines), int((r.Max.Y-r.Min.Y)/4)-1)
			for _, ends := range lines {
				for _, e := range ends {
					require.GreaterOrEqual(t, float64(e.X), float64(r.Min.X)-1e-6)
					require.LessOrEqual(t, float64(e.X), float64(r.Max.X)+1e-6)
					require.GreaterOrEqual(t, float64(e.Y), float64(r.Min.Y)-1e-6)
					require.LessOrEqual(t, float64(e.Y), float64(r.Max.Y)+1e-6)
				}
			}
		}
	})
}

// A title that is too long for a line takes two, of similar width; if that is not enough it is set
// smaller, and then cut. What follows a line break is below it in smaller letters.
func TestTitleFits(t *testing.T) {
	for text, want := range map[string][]string{
		"":             nil,
		"short":        {"short"},
		"short\nbelow": {"short", "below"},
		"Llama 3.1 405B, interleaved 1F1B, 16 ranks × 8 stages × 256 microbatches, predicted on 8,192 H100": {
			"Llama 3.1 405B, interleaved 1F1B,", "16 ranks × 8 stages × 256 microbatches, predicted on 8,192 H100"},
	} {
		var lines []string
		for _, l := range New(text, 10).head() {
			lines = append(lines, l.text)
		}
		require.Equal(t, want, lines)
	}
	for _, l := range New(strings.Repeat("long ", 99), 10).head() {
		require.Equal(t, vg.Length(8), l.style.Font.Size)
		require.LessOrEqual(t, l.style.Width(l.text), width-2*margin)
		require.True(t, strings.HasSuffix(l.text, "…"))
	}
}

// Thousands are separated before the point, and in no exponent.
func TestThousands(t *testing.T) {
	for number, want := range map[string]string{
		"0": "0", "999": "999", "1000": "1,000", "12345": "12,345", "-1234567.5": "-1,234,567.5", "-123": "-123", "1e+20": "1e+20", "0.12345": "0.12345",
	} {
		require.Equal(t, want, thousands(number))
	}
	var a plot.Axis
	Numbers(&a, Scale{Label: "tokens per second", High: 25000, Intervals: 3})
	require.Equal(t, []string{"0", "10,000", "20,000"}, labels(a))
}

// The data begin and end on whole pixels, whatever stands beside them.
func TestDataOnPixels(t *testing.T) {
	for _, label := range []string{"", "rank", "a longer label"} {
		f := New("title", 123.5)
		Time(&f.X, "time", 77*time.Millisecond, 10)
		Bytes(&f.Y, Scale{Label: label, High: 12345, Intervals: 7})
		_, data := f.layout(17)
		for _, x := range []vg.Length{data.Min.X, data.Max.X, data.Min.Y, data.Max.Y} {
			require.InDelta(t, float64(Snap(x)), float64(x), 1e-4)
		}
		require.InDelta(t, 123.5, float64(data.Max.Y-data.Min.Y), 1e-4)
		require.Less(t, data.Max.X, width)
	}
}

// TestLongTitle checks that what has no space is not measured rune by rune.
func TestLongTitle(t *testing.T) {
	start := time.Now()
	text := Shorten(strings.Repeat("x", 60_000), Text(9), width)
	require.LessOrEqual(t, Text(9).Width(text), width)
	require.True(t, strings.HasSuffix(text, "…"))
	require.Less(t, time.Since(start), 5*time.Second)
}

// Numbers are placed by their size: by its logarithm where they grow by factors.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		values []float64
		log    bool
	}{
		{[]float64{3, 4, 8}, false}, {[]float64{8, 16, 32}, true}, {[]float64{1, 2, 4, 8, 12, 16, 24, 32}, true},
		{[]float64{1, 2, 3}, false}, {[]float64{2, 4}, false}, {[]float64{0, 1, 10, 100}, false},
	} {
		names := make([]string, len(c.values))
		for i := range names {
			names[i] = "a rather long name"
		}
		f := New("", 100)
		f.Values("x", c.values, names)
		_, log := f.X.Scale.(plot.LogScale)
		require.Equal(t, c.log, log, c.values)
		require.Less(t, f.X.Min, c.values[0])
		require.Greater(t, f.X.Max, c.values[len(c.values)-1])
		ticks := f.X.Tick.Marker.Ticks(f.X.Min, f.X.Max)
		require.Len(t, ticks, len(c.values))
		for i, tick := range ticks {
			require.Equal(t, c.values[i], tick.Value)
		}
		require.NotEmpty(t, ticks[0].Label)
	}
}
