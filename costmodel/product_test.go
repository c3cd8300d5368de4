package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// tiled returns the prices of products alone, on so many multiprocessors that do
// 1 GFLOP/s together.
func tiled(t tester, multiprocessors int, precision string) *costmodel.Compute {
	t.Helper()
	d := machine().Device
	d.Peak = costmodel.Peak{FP32: 1e9, BF16: 1e9}
	d.HalfRows, d.Launch, d.MemoryBandwidth, d.Multiprocessors = 0, 0, 0, multiprocessors
	c, err := costmodel.NewCompute(d, training.Options{Precision: precision})
	require.NoError(t, err)
	return &c
}

// A product takes as long as whole waves of tiles, by hand: 200 × 128 by 128 × 65 is 4 × 2
// tiles of 64 × 64 in the forward, which five multiprocessors compute in two waves. In fp32
// tiles do not matter.
func TestTilesByHand(t *testing.T) {
	const wave = 5 * 2 * 64 * 64 // FLOPs of five multiprocessors for one step of the inner loop
	o := network.Op{Class: network.Product, Count: 1, Rows: 100, Inner: 128, Cols: 65, Weight: true}
	c := tiled(t, 5, "bf16")
	require.Equal(t, time.Duration(2*128*wave), c.Op(o, network.Forward, 2))
	require.Equal(t, time.Duration(2*65*wave), c.Op(o, network.InputGradient, 2)) // 4 × 2 tiles
	require.Equal(t, time.Duration(200*wave), c.Op(o, network.WeightGradient, 2)) // 2 × 2 tiles
	o.Weight, o.Count = false, 3                                                  // six products, one kernel
	require.Equal(t, time.Duration(5*128*wave), c.Op(o, network.Forward, 2))      // 6 × 2 × 2 tiles
	require.Equal(t, time.Duration((5*65+5*100)*wave), c.Op(o, network.InputGradient, 2))
	require.Equal(t, time.Duration(2*3*2*100*128*65), tiled(t, 5, "fp32").Op(o, network.Forward, 2))
	require.Equal(t, time.Duration(2*3*2*100*128*65), tiled(t, 0, "bf16").Op(o, network.Forward, 2))
}

// Along multiples of 64 no size of a product takes longer than a larger one, in any pass,
// and none takes less than its FLOPs at the whole rate.
func TestTilesAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := func(name string) int64 { return 64 * rapid.Int64Range(1, 200).Draw(t, name) }
		o := network.Op{
			Class: network.Product, Count: rapid.Int64Range(1, 20).Draw(t, "count"), Rows: size("rows"), Inner: size("inner"), Cols: size("cols"),
			Weight: rapid.Bool().Draw(t, "weight"),
		}
		if o.Weight {
			o.Experts = rapid.Int64Range(0, 5).Draw(t, "experts")
		}
		samples := rapid.Int64Range(1, 8).Draw(t, "samples")
		c := tiled(t, rapid.IntRange(1, 200).Draw(t, "multiprocessors"), "bf16")
		larger := o
		what := rapid.SampledFrom([]*int64{&larger.Count, &larger.Rows, &larger.Inner, &larger.Cols}).Draw(t, "what")
		*what += *what * rapid.Int64Range(1, 3).Draw(t, "times")
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			took := c.Op(o, p, samples)
			require.GreaterOrEqual(t, int64(took), int64(o.FLOPs(p))*samples)
			require.LessOrEqual(t, took, c.Op(larger, p, samples), p)
			require.LessOrEqual(t, took, c.Op(o, p, samples+1), p)
		}
	})
}

// Serial tiles add the time of writing results to that of computing them, in 16 bits.
func TestSerialTiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := func(name string) int64 { return rapid.Int64Range(1, 3000).Draw(t, name) }
		o := network.Op{Class: network.Product, Count: 1, Rows: size("rows"), Inner: size("inner"), Cols: size("cols"), Weight: rapid.Bool().Draw(t, "weight")}
		d, samples := machine().Device, rapid.Int64Range(1, 8).Draw(t, "samples")
		d.Multiprocessors, d.MemoryBandwidth, d.Launch = 8, 1e9, 0
		d.Peak, d.Efficiency.Memory = costmodel.Peak{FP32: 1e9, BF16: 1e9}, 1 // so slow that reading is no matter
		time := func(precision string, serial bool, p network.Pass) time.Duration {
			d.SerialTiles = serial
			c, err := costmodel.NewCompute(d, training.Options{Precision: precision})
			require.NoError(t, err)
			return c.Op(o, p, samples)
		}
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			written := 2 * o.Written(p, samples)
			require.InDelta(t, written, time("bf16", true, p)-time("bf16", false, p), 1, p)
			require.Equal(t, time("fp32", false, p), time("fp32", true, p))
		}
	})
}
