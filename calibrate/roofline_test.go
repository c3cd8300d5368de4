package calibrate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/calibrate"
	"psim/costmodel"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
)

// timed prices the passes of a network by a roofline, times noise.
func timed(t require.TestingT, n network.Network, d costmodel.Device, noise func() float64) []calibrate.Timing {
	c, err := costmodel.NewCompute(d, training.Options{})
	require.NoError(t, err)
	var list []calibrate.Timing
	for _, l := range n.Distinct() {
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			for _, samples := range []int64{1, 2, 4} {
				price := time.Duration(float64(c.Layer(l, p, samples)) * noise())
				list = append(list, calibrate.Timing{Layer: l, Pass: p, Samples: samples, Time: price})
			}
		}
	}
	return list
}

func roofline(flops, bandwidth float64, launch time.Duration) costmodel.Device {
	return costmodel.Device{
		Peak: costmodel.Peak{FP32: units.FLOPS(flops)}, MemoryBandwidth: units.Rate(bandwidth),
		Efficiency: costmodel.Efficiency{FP32: 1, Memory: 1}, Launch: units.Duration(launch),
	}
}

// Known constants are found again, whether most products compute or move, and
// nearly so from noisy timings.
func TestFitRooflineFindsConstants(t *testing.T) {
	n := build(t, models.Model{Family: "gpt", Layers: 2, Hidden: 128, Heads: 4, Vocab: 500, SequenceLength: 64})
	exactly := func() float64 { return 1 }
	rapid.Check(t, func(t *rapid.T) {
		flops := rapid.Float64Range(1e10, 1e11).Draw(t, "flops")
		bandwidth := flops / rapid.Float64Range(0.1, 8).Draw(t, "FLOPs per byte") // beyond, no product would show flops
		launch := time.Duration(rapid.Int64Range(0, 20_000).Draw(t, "launch"))
		c, err := calibrate.FitRoofline(timed(t, n, roofline(flops, bandwidth, launch), exactly), time.Millisecond)
		require.NoError(t, err)
		require.InEpsilon(t, flops, float64(c.FLOPS), 0.01)
		require.InEpsilon(t, bandwidth, float64(c.Bandwidth), 0.01)
		require.InDelta(t, float64(launch), float64(c.Launch), 20)
		require.Less(t, c.Error, 0.01, "times are whole nanoseconds")
	})
	r := rand.New(rand.NewPCG(1, 2))
	noisy := func() float64 { return 1 + 0.05*r.NormFloat64() }
	c, err := calibrate.FitRoofline(timed(t, n, roofline(3e10, 5e9, 2000), noisy), 3*time.Microsecond)
	require.NoError(t, err)
	require.InEpsilon(t, 3e10, float64(c.FLOPS), 0.05)
	require.InEpsilon(t, 5e9, float64(c.Bandwidth), 0.1)
	require.InDelta(t, 0.04, c.Error, 0.03)

	c, err = calibrate.FitRoofline(timed(t, n, roofline(3e10, 5e9, 5000), exactly), 4*time.Microsecond)
	require.NoError(t, err)
	require.EqualValues(t, 4000, c.Launch, "no more than a call")
	require.InEpsilon(t, 3e10, float64(c.FLOPS), 0.1)
}

// Timings that tell less than three constants still give a device.
func TestFitRooflineOfLittle(t *testing.T) {
	n := build(t, models.Model{Family: "mlp", Layers: 2, Hidden: 3})
	c, err := calibrate.FitRoofline([]calibrate.Timing{{Layer: n.Layers[1], Samples: 2, Time: time.Microsecond}}, 0)
	require.NoError(t, err)
	require.Positive(t, c.FLOPS)
	_, err = calibrate.FitRoofline(nil, 0)
	require.ErrorContains(t, err, "no measured layer has a matrix product")
}

// A line through exact timings is that line; a negative start becomes zero.
func TestFitTransfers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		latency := rapid.Int64Range(0, 1e6).Draw(t, "latency")
		perKB := rapid.Int64Range(1, 1e5).Draw(t, "ns per kB")
		var list []calibrate.MeasuredCopy
		for _, kb := range []int64{4, 64, 1024} {
			list = append(list, calibrate.MeasuredCopy{Pieces: 1, Bytes: kb * 1000, Time: time.Duration(latency + kb*perKB)})
		}
		perPiece, rate := calibrate.FitTransfers(list)
		require.InDelta(t, float64(latency), float64(perPiece), 2)
		require.InEpsilon(t, 1e12/float64(perKB), float64(rate), 1e-6)
	})
	perPiece, rate := calibrate.FitTransfers([]calibrate.MeasuredCopy{{1, 1000, 10}, {1, 2000, 100}})
	require.Zero(t, perPiece)
	require.Positive(t, rate)
	perPiece, rate = calibrate.FitTransfers(nil)
	require.Zero(t, perPiece)
	require.Zero(t, rate)
}
