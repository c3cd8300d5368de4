package reports_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/reports/picture"
	"psim/results"
	"psim/results/tracecsv"
	"psim/schedules/graph"
)

// figures are what is drawn in the tests, in either format.
func figures(t testing.TB) map[string]func(w io.Writer, format string) error {
	c := unit()
	c.send = 3 * ms
	slow := times{f: 11 * ms, b: 23 * ms, send: 3 * ms}
	panels := func(p ...picture.Panel) func(io.Writer, string) error {
		return func(w io.Writer, format string) error { return picture.Timeline(w, format, "", p...) }
	}
	memory := func(trace *graph.Trace, capacity ...int64) func(io.Writer, string) error {
		return func(w io.Writer, format string) error {
			return picture.Memory(w, format, picture.MemoryFigure{
				Title: "Memory: 1F1B", Curves: tracecsv.MemoryCurves(trace), End: trace.End(), Capacity: capacity,
			})
		}
	}
	compare := func(a, b results.Run) func(io.Writer, string) error {
		return func(w io.Writer, format string) error { return picture.CompareTimelines(w, format, a, b) }
	}
	return map[string]func(io.Writer, string) error{
		"compare-2x4":      compare(both(t, "gpipe", 2, 4)),
		"compare-3x8":      compare(both(t, "gpipe", 3, 8)),
		"compare-slices":   compare(slices(t)),
		"compare-dense":    compare(both(t, "1f1b", 8, 300)),
		"timeline-gpipe":   panels(picture.Panel{Trace: run(t, "gpipe", 4, 8, c)}),
		"timeline-1f1b":    panels(picture.Panel{Trace: run(t, "1f1b", 2, 4, unit())}),
		"timeline-ddp":     panels(picture.Panel{Trace: ddp(t)}),
		"timeline-ring":    panels(picture.Panel{Trace: ring(t, 4)}),
		"timeline-split":   panels(picture.Panel{Trace: split(t)}),
		"timeline-dense":   panels(picture.Panel{Trace: run(t, "1f1b", 20, 600, unit())}),
		"timeline-compare": panels(picture.Panel{Trace: run(t, "1f1b", 4, 8, c), Label: "predicted"}, picture.Panel{Trace: run(t, "1f1b", 4, 8, slow), Label: "measured"}),
		"memory-4":         memory(run(t, "1f1b", 4, 8, c), 10e9, 10e9, 10e9, 10e9),
		"memory-16":        memory(run(t, "1f1b", 16, 32, c)),
		"memory-256":       memory(run(t, "1f1b", 2, 256, c), 4e9, 4e9),
		"memory-split":     memory(split(t), 80e9, 80e9),
		"pareto":           func(w io.Writer, format string) error { return picture.Pareto(w, format, pareto(t, 12e9)) },
		"scatter":          func(w io.Writer, format string) error { return picture.Scatter(w, format, scatter(1)) },
		"scatter-log":      func(w io.Writer, format string) error { return picture.Scatter(w, format, scatter(3)) },
		"pareto-unlimited": func(w io.Writer, format string) error { return picture.Pareto(w, format, pareto(t, 0)) },
	}
}

// slices are a prediction and a measurement with collectives and backwards in
// pieces.
func slices(t testing.TB) (a, b results.Run) {
	predicted := ddp(t)
	c := times{f: 10 * ms, b: 10 * ms, send: 2 * ms, collective: 12 * ms, optimizer: 8 * ms}
	trace := measure(t, predicted.Graph, c, 1.1)
	a, b = results.Run{Result: result(predicted, nil), Trace: predicted}, results.Run{Result: result(trace, nil), Trace: trace}
	b.Result.Kind = results.Measured
	return a, b
}

func TestSVG(t *testing.T) {
	for name, draw := range figures(t) {
		var b, again bytes.Buffer
		require.NoError(t, draw(&b, picture.SVG))
		require.NoError(t, draw(&again, picture.SVG))
		require.True(t, bytes.Equal(b.Bytes(), again.Bytes()), name)
		require.NoError(t, wellFormed(b.Bytes()))
		if name == "timeline-dense" || strings.HasPrefix(name, "compare-") && name != "compare-2x4" && name != "compare-3x8" || name == "memory-16" {
			require.Less(t, b.Len(), 2<<20)
			continue // too large for a golden file
		}
		golden.Drawing(t, name+".svg", b.Bytes())
	}
}

func wellFormed(data []byte) error {
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		if _, err := d.Token(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// All figures can be drawn as PNG, and the same bytes twice: one of each kind, because
// drawing twice costs seconds and could differ only in the order of a kind's shapes,
// which TestSVG compares for every figure. That what is drawn is right the SVGs say,
// which are small enough to be kept.
func TestPNG(t *testing.T) {
	for name, draw := range figures(t) {
		var first, second bytes.Buffer
		require.NoError(t, draw(&first, picture.PNG))
		if name == "compare-slices" || name == "scatter" || name == "pareto" || name == "memory-split" { // one of each kind
			require.NoError(t, draw(&second, picture.PNG))
			require.True(t, bytes.Equal(first.Bytes(), second.Bytes()), name)
		}
		if folder := os.Getenv("PSIM_PICTURES"); folder != "" { // to look at
			require.NoError(t, os.WriteFile(filepath.Join(folder, name+".png"), first.Bytes(), 0o644))
		}
		image, err := png.Decode(&first)
		require.NoError(t, err)
		require.Equal(t, 1872, image.Bounds().Dx())
	}
}

// TestTimelineColors looks for the tasks of rank 0 where they must be.
func TestTimelineColors(t *testing.T) {
	var b bytes.Buffer
	trace := run(t, "1f1b", 1, 1, times{f: 10 * ms, b: 20 * ms, optimizer: 10 * ms})
	require.NoError(t, picture.Timeline(&b, picture.PNG, "title", picture.Panel{Trace: trace}))
	image, err := png.Decode(&b)
	require.NoError(t, err)
	var seen []uint32
	for x := range image.Bounds().Dx() {
		r, g, b, _ := image.At(x, 4*(30+2)).RGBA() // just below the top of the first row
		c := r>>8<<16 | g>>8<<8 | b>>8
		if len(seen) == 0 || seen[len(seen)-1] != c {
			seen = append(seen, c)
		}
	}
	require.Contains(t, seen, uint32(0x0072b2))
	require.Contains(t, seen, uint32(0xe69f00))
	require.Contains(t, seen, uint32(0xf0e442))
}

// The first rank sends half as many messages as the next: where those of that one can only be
// drawn as shares of time, its own, which could be drawn one by one, are so too.
func TestMessagesAlike(t *testing.T) {
	var b bytes.Buffer
	trace := run(t, "1f1b", 3, 400, times{f: 10 * ms, b: 20 * ms, send: ms / 10})
	require.NoError(t, picture.Timeline(&b, picture.PNG, "title", picture.Panel{Trace: trace}))
	image, err := png.Decode(&b)
	require.NoError(t, err)
	const activationsSent = 0x7f8c99
	longest := 0 // how many pixels of that are above each other
	for x := range image.Bounds().Dx() {
		column := 0
		for y := range image.Bounds().Dy() * 2 / 3 { // above the legend
			if r, g, b, _ := image.At(x, y).RGBA(); r>>8<<16|g>>8<<8|b>>8 == activationsSent {
				column++
			} else {
				column = 0
			}
			longest = max(longest, column)
		}
	}
	require.Positive(t, longest)
	require.LessOrEqual(t, longest, 4, "a share of 1 % is as high as the least that can be seen")
}

func TestPictureErrors(t *testing.T) {
	var b bytes.Buffer
	trace := run(t, "1f1b", 2, 2, unit())
	require.ErrorContains(t, picture.Timeline(&b, "gif", "", picture.Panel{Trace: trace}), `unknown picture format "gif"; use png, svg or pdf`)
	require.ErrorContains(t, picture.Timeline(&b, picture.PNG, ""), "no trace")
	still := run(t, "1f1b", 2, 2, times{})
	require.ErrorContains(t, picture.Timeline(&b, picture.PNG, "", picture.Panel{Trace: still}), "takes no time")
	require.ErrorContains(t, picture.Memory(&b, picture.PNG, picture.MemoryFigure{}), "no rank")
	require.ErrorContains(t, picture.Memory(&b, picture.PNG, picture.MemoryFigure{Curves: tracecsv.MemoryCurves(run(t, "1f1b", 2, 2, times{f: ms}))}), "no memory")
	require.Zero(t, b.Len())
}

// TestTimelineSizes draws what is at the limits: very short and very long
// steps, many ranks, and measured tasks of a few nanoseconds between long ones.
func TestTimelineSizes(t *testing.T) {
	for _, trace := range []*graph.Trace{
		run(t, "1f1b", 1, 1, times{f: 1}),
		run(t, "1f1b", 2, 2, times{f: 1000 * time.Hour, b: 2000 * time.Hour}),
		run(t, "1f1b", 520, 2, unit()),
		run(t, "gpipe", 2, 5000, unit()),
		measure(t, run(t, "gpipe", 2, 4, unit()).Graph, times{f: 3, b: 100 * ms, send: 1}, 1),
		measure(t, run(t, "gpipe", 2, 4, unit()).Graph, times{f: 10 * ms}, 1),
	} {
		var b bytes.Buffer
		require.NoError(t, picture.Timeline(&b, picture.PNG, "", picture.Panel{Trace: trace}))
		image, err := png.Decode(&b)
		require.NoError(t, err)
		require.Less(t, image.Bounds().Dy(), 3000)
	}
}

func BenchmarkTimeline(b *testing.B) {
	trace := run(b, "1f1b", 64, 1024, unit())
	for b.Loop() {
		if err := picture.Timeline(io.Discard, picture.PNG, "", picture.Panel{Trace: trace}); err != nil {
			b.Fatal(err)
		}
	}
}
