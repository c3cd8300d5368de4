package chart_test

import (
	"bytes"
	"fmt"
	"time"

	"gonum.org/v1/plot/plotter"

	"psim/reports/chart"
)

// A curve with its legend, as an SVG.
func Example() {
	f := chart.New("memory of a rank", 200)
	chart.Time(&f.X, "time", 30*time.Millisecond, 10)
	chart.Bytes(&f.Y, chart.Scale{Label: "memory", High: 4e9, Intervals: 6})
	curve := chart.Steps{
		XYs:       plotter.XYs{{X: 0, Y: 1e9}, {X: 10e6, Y: 3e9}, {X: 20e6, Y: 2e9}},
		LineStyle: chart.Stroke(chart.Color(0), 1.4), Grain: chart.Pixel,
	}
	f.Add(curve)
	f.Explain("rank 0", chart.Line(curve.LineStyle))
	var picture bytes.Buffer
	fmt.Println(f.Write(&picture, chart.SVG))
	fmt.Println(bytes.Contains(picture.Bytes(), []byte("memory (GB)")))
	fmt.Println(f.Write(&picture, "gif"))
	// Output:
	// <nil>
	// true
	// unknown picture format "gif"; use png, svg or pdf
}
