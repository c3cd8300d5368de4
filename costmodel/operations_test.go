package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
)

func compute(t tester, d costmodel.Device) *costmodel.Compute {
	t.Helper()
	c, err := costmodel.NewCompute(d, training.Options{})
	require.NoError(t, err)
	return &c
}

// A product of 100×200 by 200×300: 12 MFLOP, of which 1 TFLOP/s does one in
// 12 µs; 100 rows reach 100 of 110 parts of that with ten half rows; 110 000
// elements of 4 bytes would take 4.4 µs.
func TestComputeBound(t *testing.T) {
	op := network.Op{Class: network.Product, Count: 1, Rows: 100, Inner: 200, Cols: 300, Weight: true}
	d := device()
	require.Equal(t, time.Microsecond+13200, compute(t, d).Op(op, network.Forward, 1))
	require.Equal(t, time.Microsecond+10*12000+1200, compute(t, d).Op(op, network.Forward, 10)) // 1000 rows
	d.HalfRows, d.Launch = 0, 0
	require.Equal(t, 12000*time.Nanosecond, compute(t, d).Op(op, network.Forward, 1))
	d.Efficiency.FP32 = 0.5
	require.Equal(t, 24000*time.Nanosecond, compute(t, d).Op(op, network.WeightGradient, 1))
	op.NoInputGradient = true
	require.Zero(t, compute(t, d).Op(op, network.InputGradient, 1))
}

// Half rows in fp32 go over half rows where a device has them, and in fp32 alone.
func TestHalfRowsInFP32(t *testing.T) {
	op := network.Op{Class: network.Product, Count: 1, Rows: 100, Inner: 200, Cols: 300, Weight: true}
	d := device()
	d.HalfRows, d.HalfRowsFP32, d.Launch = 0, 10, 0
	require.Equal(t, 13200*time.Nanosecond, compute(t, d).Op(op, network.Forward, 1))
	c, err := costmodel.NewCompute(d, training.Options{Precision: "bf16"})
	require.NoError(t, err)
	require.Equal(t, 6*time.Microsecond, c.Op(op, network.Forward, 1)) // at twice the rate
}

// One row does 120 kFLOP in 120 ns, a tenth of the rate with nine half rows;
// reading the weight takes 2.4 µs.
func TestMemoryBound(t *testing.T) {
	op := network.Op{Class: network.Product, Count: 1, Rows: 1, Inner: 200, Cols: 300, Weight: true}
	d := device()
	d.HalfRows, d.Launch = 9, 0
	require.Equal(t, 2420*time.Nanosecond, compute(t, d).Op(op, network.Forward, 1)) // 60 500 elements
	d.MemoryBandwidth = 0                                                            // not known: memory is free
	require.Equal(t, 1200*time.Nanosecond, compute(t, d).Op(op, network.Forward, 1))

	add := network.Op{Class: network.Elementwise, Elements: 1000, Moved: [3]int64{3000, 2000, 0}}
	d = device()
	d.Efficiency.Memory = 0.5
	require.Equal(t, time.Microsecond+240, compute(t, d).Op(add, network.Forward, 1))
	require.Equal(t, time.Microsecond+1600, compute(t, d).Op(add, network.InputGradient, 10))
	require.Zero(t, compute(t, d).Op(add, network.WeightGradient, 10)) // there is no such kernel
	require.Equal(t, time.Microsecond+2*time.Second, compute(t, d).Move(1e11))
	require.Zero(t, compute(t, d).Move(0))
}

// Mixed precision computes faster and moves half the bytes.
func TestPrecisions(t *testing.T) {
	d := device()
	d.Launch, d.HalfRows = 0, 0
	product := network.Op{Class: network.Product, Count: 1, Rows: 1000, Inner: 1000, Cols: 1000}
	copied := network.Op{Class: network.Elementwise, Moved: [3]int64{1000, 0, 0}}
	for precision, want := range map[string][2]time.Duration{"": {2000_000, 40}, "fp32": {2000_000, 40}, "fp16": {1000_000, 20}, "bf16": {1000_000, 20}} {
		c, err := costmodel.NewCompute(d, training.Options{Precision: precision})
		require.NoError(t, err)
		require.Equal(t, want, [2]time.Duration{c.Op(product, network.Forward, 1), c.Op(copied, network.Forward, 1)}, precision)
	}
	d.Peak.BF16 = 0
	_, err := costmodel.NewCompute(d, training.Options{Precision: "bf16"})
	require.EqualError(t, err, `precision = "bf16": the device test has no rate for it; it has fp32, fp16, fp8, fp4`)
	_, err = costmodel.NewCompute(costmodel.Device{Name: "none"}, training.Options{})
	require.EqualError(t, err, `precision = "fp32": the device none has no rate for it`)
}

func drawDevice(t *rapid.T) costmodel.Device {
	d := device()
	d.Peak.FP32 = units.FLOPS(rapid.Float64Range(1e6, 1e16).Draw(t, "flops"))
	d.MemoryBandwidth = units.Rate(rapid.Float64Range(1e6, 1e13).Draw(t, "bandwidth"))
	d.HalfRows = rapid.Float64Range(0, 1e4).Draw(t, "half rows")
	d.Launch = units.Duration(rapid.IntRange(0, 1e6).Draw(t, "launch"))
	return d
}

func drawOp(t *rapid.T) network.Op {
	size := rapid.Int64Range(1, 500)
	op := network.Op{
		Class: network.OpClass(rapid.IntRange(0, 2).Draw(t, "class")), Count: size.Draw(t, "count"),
		Rows: size.Draw(t, "rows"), Inner: size.Draw(t, "inner"), Cols: size.Draw(t, "cols"),
		Weight: rapid.Bool().Draw(t, "weight"), Bias: rapid.Bool().Draw(t, "bias"),
	}
	for p := range op.Moved {
		op.Moved[p] = rapid.Int64Range(0, 1e6).Draw(t, "moved")
	}
	return op
}

// More work takes no less time and a faster device no more; nothing is free
// but doing nothing.
func TestOpLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, op := drawDevice(t), drawOp(t)
		pass := network.Pass(rapid.IntRange(0, 2).Draw(t, "pass"))
		samples := rapid.Int64Range(1, 1000).Draw(t, "samples")
		base := compute(t, d).Op(op, pass, samples)
		if op.FLOPs(pass) == 0 && op.Traffic(pass, samples) == 0 {
			require.Zero(t, base)
		} else {
			require.GreaterOrEqual(t, base, time.Duration(d.Launch))
		}

		more := op
		more.Cols++ // FLOPs and bytes
		more.Inner++
		more.Moved = [3]int64{op.Moved[0] + 1, op.Moved[1] + 1, op.Moved[2] + 1}
		require.GreaterOrEqual(t, compute(t, d).Op(more, pass, samples), base)
		require.GreaterOrEqual(t, compute(t, d).Op(op, pass, samples+1), base)
		require.Zero(t, compute(t, d).Op(op, pass, 0))

		faster := d
		faster.Peak.FP32 *= 2
		require.LessOrEqual(t, compute(t, faster).Op(op, pass, samples), base)
		faster.MemoryBandwidth *= 2
		twice := compute(t, faster).Op(op, pass, samples)
		require.LessOrEqual(t, twice, base)
		if base > 0 { // both rates: what is beyond the launch halves
			launch := time.Duration(d.Launch)
			require.InDelta(t, float64(base-launch), 2*float64(twice-launch), 3)
		}
		slower := d
		slower.HalfRows++
		require.GreaterOrEqual(t, compute(t, slower).Op(op, pass, samples), base)
	})
}

// A device of next to no speed takes long; the sum of a layer stays positive.
func TestSlowDevice(t *testing.T) {
	d := device()
	d.Peak.FP32, d.MemoryBandwidth, d.Launch = 5e-324, 5e-324, 1<<63-1
	c := compute(t, d)
	n := gpt2(t)
	for _, l := range n.Layers {
		for _, p := range []network.Pass{network.Forward, network.InputGradient, network.WeightGradient} {
			require.GreaterOrEqual(t, c.Layer(l, p, 1), time.Duration(0))
		}
		require.GreaterOrEqual(t, c.Recompute(l, training.Options{Recompute: "full"}, 1), time.Duration(0))
	}
	w, m := workload(t, n, []int32{0}, 1), machine()
	m.Device = d
	_, err := costmodel.StepCosts(m, w.Staged(), graphOf(t, w, orderOf(t, "gpipe", w)))
	require.ErrorContains(t, err, "stage 0 would take more than")
	require.Positive(t, c.Move(1<<62))
}

// A layer is its operations; recomputing runs F of what was not kept.
func TestLayer(t *testing.T) {
	c := compute(t, device())
	for _, l := range smallGPT(t).Layers {
		var forward, core time.Duration
		for _, o := range l.Ops {
			forward += c.Op(o, network.Forward, 3)
			if o.Modules&network.Square != 0 {
				core += c.Op(o, network.Forward, 3)
			}
		}
		require.Equal(t, forward, c.Layer(l, network.Forward, 3))
		require.Zero(t, c.Recompute(l, training.Options{Recompute: "none"}, 3))
		require.Equal(t, core, c.Recompute(l, training.Options{Recompute: "selective"}, 3))
		if l.Repeatable {
			require.Equal(t, forward, c.Recompute(l, training.Options{Recompute: "full"}, 3))
		}
	}
}

// Fused attention takes the time of the pairs that it computes at its own rate, which
// narrow heads reach less of; twice as many pairs take twice as long.
func TestFusedAttention(t *testing.T) {
	d := costmodel.Device{Peak: costmodel.Peak{BF16: 1e12}, Efficiency: costmodel.Efficiency{BF16: 1}, Attention: 0.5, HalfHead: 64}
	c, err := costmodel.NewCompute(d, training.Options{Precision: "bf16"})
	require.NoError(t, err)
	o := network.Op{Class: network.Attention, Count: 2, Rows: 1000, Cols: 1000, Inner: 64, Pairs: 500_000, Moved: [3]int64{1, 1, 0}}
	work := 4 * 2 * 500e3 * 64.0
	require.InDelta(t, work/0.5e12*2, c.Op(o, network.Forward, 1).Seconds(), 1e-8)
	require.InDelta(t, 2.5*3*work/0.5e12*2, c.Op(o, network.InputGradient, 3).Seconds(), 1e-8)
	require.Zero(t, c.Op(o, network.WeightGradient, 1))
	o.Inner = 128
	require.InDelta(t, 2*work/0.5e12*1.5, c.Op(o, network.Forward, 1).Seconds(), 1e-8)

	// Padded heads take as long as those that are as wide as the padding, in each product.
	d.HeadMultiple = 128
	padded, err := costmodel.NewCompute(d, training.Options{Precision: "bf16"})
	require.NoError(t, err)
	for _, pass := range []network.Pass{network.Forward, network.InputGradient} {
		for _, width := range [][4]int64{{64, 0, 128, 0}, {128, 0, 128, 0}, {129, 0, 256, 0}, {192, 128, 256, 128}} {
			o.Inner, o.Values = width[0], width[1]
			narrow := padded.Op(o, pass, 1)
			o.Inner, o.Values = width[2], width[3]
			require.Equal(t, c.Op(o, pass, 1), narrow, width)
		}
	}
}
