package costmodel

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"psim/costmodel/network"
	"psim/internal/setting"
	"psim/internal/units"
)

// Measured holds the times that the passes of one layer took on a device, for one size of
// microbatch, in fp32. It is an entry of [[machine.measured]].
type Measured struct {
	Layer          string         `toml:"layer"`   // network.Layer's Signature
	Samples        int64          `toml:"samples"` // of the microbatch
	Forward        units.Duration `toml:"forward"`
	Backward       units.Duration `toml:"backward"` // in one piece, which may be shorter than its halves
	InputGradient  units.Duration `toml:"input_gradient"`
	WeightGradient units.Duration `toml:"weight_gradient"`
}

// Settings describes [[machine.measured]].
func (Measured) Settings() []setting.Setting {
	limit := setting.Range{Max: float64(units.Longest), BelowMax: true}
	return []setting.Setting{
		{
			Key: "layer", Required: true, Example: `"chain 8x16 to 8x16, layer norm, parameters 16 16"`,
			Text: "what it computes, as psim calibrate writes it",
		},
		{
			Key: "samples", Required: true, Example: "4", Range: setting.Between(1, maxSamples),
			Text: "of the microbatch",
		},
		{
			Key: "forward", Default: "0us", Example: `"1ms"`, Range: limit,
			Text: "no size may take less time than a smaller one",
		},
		{Key: "backward", Default: "0us", Example: `"2ms"`, Range: limit, Text: "in one piece"},
		{Key: "input_gradient", Default: "0us", Example: `"1ms"`, Range: limit, Text: "its first half"},
		{Key: "weight_gradient", Default: "0us", Example: `"1ms"`, Range: limit, Text: "its second half"},
	}
}

// maxSamples keeps products with times and bytes small enough to be exact.
const maxSamples = 1 << 31

// Times lists the times of the passes in the order of passKeys.
func (m *Measured) Times() [4]*units.Duration {
	return [4]*units.Duration{&m.Forward, &m.Backward, &m.InputGradient, &m.WeightGradient}
}

// passKeys lists the keys of Times.
var passKeys = [4]string{"forward", "backward", "input_gradient", "weight_gradient"}

// Indices into Times.
const (
	forwardTime = iota
	backwardTime
	inputTime
	weightTime
)

// timeOf finds the time of a pass.
func timeOf(p network.Pass) int {
	return [...]int{
		network.Forward: forwardTime, network.InputGradient: inputTime, network.WeightGradient: weightTime,
	}[p]
}

// MeasuredLayers reports, by signature, which layers of a network were measured on the device.
func (d Device) MeasuredLayers(n network.Network) map[string]bool {
	known := map[string]bool{}
	for _, m := range d.Measured {
		known[m.Layer] = true
	}
	layers := map[string]bool{}
	for _, l := range n.Distinct() {
		s := l.Signature()
		layers[s] = known[s]
	}
	return layers
}

// curves hold measured times as a function of samples, by signature.
type curves map[string][]Measured

// newCurves sorts measurements. It fails if a layer was measured twice for one size, or if more
// samples took less time.
func newCurves(list []Measured) (curves, error) {
	c := curves{}
	for i, m := range list {
		if err := setting.Validate(m); err != nil {
			return nil, fmt.Errorf("measured: entry %d: %w", i+1, err)
		}
		c[m.Layer] = append(c[m.Layer], m)
	}
	sorted := map[string]bool{}
	for _, m := range list { // in the file's order, so that the first error is the first there
		if sorted[m.Layer] {
			continue
		}
		sorted[m.Layer] = true
		points := c[m.Layer]
		slices.SortStableFunc(points, bySamples)
		if err := rising(points); err != nil {
			return nil, fmt.Errorf("measured: layer %q: %w", m.Layer, err)
		}
	}
	return c, nil
}

func bySamples(a, b Measured) int { return cmp.Compare(a.Samples, b.Samples) }

// rising checks the points of one layer, in order.
func rising(points []Measured) error {
	for i := 1; i < len(points); i++ {
		a, b := &points[i-1], &points[i]
		if a.Samples == b.Samples {
			return fmt.Errorf("%d samples appear twice", a.Samples)
		}
		before := a.Times()
		for k, d := range b.Times() {
			if *d < *before[k] {
				return fmt.Errorf("%s of %d samples is %s, less than the %s of %d samples; "+
					"no size may take less time than a smaller one",
					passKeys[k], b.Samples, *d, *before[k], a.Samples)
			}
		}
	}
	return nil
}

// at finds one of a layer's times for a number of samples. It returns false if the layer was not
// measured.
func (c curves) at(l network.Layer, which int, samples int64) (time.Duration, bool) {
	if len(c) == 0 || samples < 1 {
		return 0, false
	}
	points := c[l.Signature()]
	if points == nil {
		return 0, false
	}
	return interpolate(points, which, samples), true
}

// interpolate connects the points by straight lines. The last line continues beyond the last point.
// Before the first point it follows the first line, or a line to the origin if the first line
// would fall below zero. A single point has a line through the origin in both directions.
func interpolate(points []Measured, which int, samples int64) time.Duration {
	x := func(i int) float64 { return float64(points[i].Samples) }
	y := func(i int) float64 { return float64(*points[i].Times()[which]) }
	n, last := float64(samples), len(points)-1
	i := 0 // the first point at or after n, or the last
	for i < last && n > x(i) {
		i++
	}
	if n == x(i) {
		return time.Duration(*points[i].Times()[which])
	}
	slope := y(0) / x(0)
	if last > 0 {
		from := max(0, i-1)
		slope = (y(from+1) - y(from)) / (x(from+1) - x(from))
	}
	if i == 0 && n < x(0) {
		slope = min(slope, y(0)/x(0))
	}
	return units.Nanoseconds(y(i) + slope*(n-x(i)))
}
