package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/calibrate"
	"psim/costmodel"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// drawMeasured draws rising times of a layer at one to four sizes.
func drawMeasured(t *rapid.T, layer network.Layer) []costmodel.Measured {
	var list []costmodel.Measured
	m := costmodel.Measured{Layer: layer.Signature()}
	for range rapid.IntRange(1, 4).Draw(t, "sizes") {
		m.Samples += rapid.Int64Range(1, 40).Draw(t, "more samples")
		for _, of := range []*units.Duration{&m.Forward, &m.Backward, &m.InputGradient, &m.WeightGradient} {
			*of += units.Duration(rapid.Int64Range(0, 1e9).Draw(t, "more time"))
		}
		list = append(list, m)
	}
	return list
}

// measuredOn is a device of 1 FLOP/s, so that the roofline's prices cannot be
// mistaken for measured ones, on which layers were measured.
func measuredOn(t require.TestingT, list []costmodel.Measured, training training.Options) costmodel.Compute {
	d := costmodel.Device{Peak: costmodel.Peak{FP32: 1, BF16: 1}, Efficiency: costmodel.Efficiency{FP32: 1, BF16: 1}, Measured: list}
	c, err := costmodel.NewCompute(d, training)
	require.NoError(t, err)
	return c
}

// Times are met at the sizes that were measured, are never negative and never
// fall with the size.
func TestInterpolationLaws(t *testing.T) {
	layer := mlp(t, 2, 3).Layers[1]
	rapid.Check(t, func(t *rapid.T) {
		list := drawMeasured(t, layer)
		c := measuredOn(t, list, training.Options{})
		for _, m := range list {
			require.Equal(t, time.Duration(m.Forward), c.Layer(layer, network.Forward, m.Samples))
			require.Equal(t, time.Duration(m.InputGradient), c.Layer(layer, network.InputGradient, m.Samples))
			require.Equal(t, time.Duration(m.WeightGradient), c.Layer(layer, network.WeightGradient, m.Samples))
			require.Equal(t, time.Duration(m.Backward), c.Backward(layer, m.Samples))
		}
		before := [4]time.Duration{}
		for n := int64(1); n < 200; n++ {
			now := [4]time.Duration{
				c.Layer(layer, network.Forward, n), c.Layer(layer, network.InputGradient, n), c.Layer(layer, network.WeightGradient, n), c.Backward(layer, n),
			}
			for i := range now {
				require.GreaterOrEqual(t, now[i], before[i], "%d samples", n)
			}
			before = now
		}
	})
}

// Between two sizes and beyond them the times lie on their line; below them
// as well, unless that would come to nothing.
func TestInterpolationByHand(t *testing.T) {
	layer := mlp(t, 2, 3).Layers[1]
	m := func(samples int64, forward, backward units.Duration) costmodel.Measured {
		return costmodel.Measured{Layer: layer.Signature(), Samples: samples, Forward: forward, Backward: backward}
	}
	c := measuredOn(t, []costmodel.Measured{m(8, 900, 1000), m(4, 500, 200)}, training.Options{}) // 100 + 100 n; 200 (n - 3)
	for n, want := range map[int64][2]time.Duration{1: {200, 50}, 2: {300, 100}, 6: {700, 600}, 10: {1100, 1400}} {
		require.Equal(t, want[0], c.Layer(layer, network.Forward, n), "%d samples", n)
		require.Equal(t, want[1], c.Backward(layer, n), "%d samples", n)
	}
	one := measuredOn(t, []costmodel.Measured{m(4, 500, 200)}, training.Options{})
	require.EqualValues(t, 1000, one.Layer(layer, network.Forward, 8))
	require.EqualValues(t, 125, one.Layer(layer, network.Forward, 1))
}

// What was not measured, or not in this precision, is priced by the roofline.
func TestMeasuredIsForItsLayerAlone(t *testing.T) {
	n := mlp(t, 3, 3)
	list := []costmodel.Measured{{Layer: n.Layers[1].Signature(), Samples: 2, Forward: 7}}
	c := measuredOn(t, list, training.Options{})
	require.EqualValues(t, 7, c.Layer(n.Layers[1], network.Forward, 2))
	require.Greater(t, c.Layer(n.Layers[0], network.Forward, 2), time.Second)
	bf16 := measuredOn(t, list, training.Options{Precision: "bf16"})
	require.Greater(t, bf16.Layer(n.Layers[1], network.Forward, 2), time.Second)
	require.Zero(t, c.Layer(n.Layers[1], network.Forward, 0))
}

// Smooth makes any measurements legal and leaves rising ones as they are.
func TestSmooth(t *testing.T) {
	layer := mlp(t, 2, 3).Layers[1]
	rapid.Check(t, func(t *rapid.T) {
		rising := drawMeasured(t, layer)
		require.Equal(t, rising, calibrate.Smooth(rising))
		noisy := make([]costmodel.Measured, len(rising))
		var sum, smooth units.Duration
		for i, m := range rising {
			m.Forward = units.Duration(rapid.Int64Range(0, 1e9).Draw(t, "noise"))
			sum += m.Forward
			noisy[i] = m
		}
		fixed := calibrate.Smooth(noisy)
		measuredOn(t, fixed, training.Options{})
		for _, m := range fixed {
			smooth += m.Forward
		}
		require.InDelta(t, int64(sum), int64(smooth), float64(len(noisy)), "means keep the sum, but for fractions")
	})
}

// Whole tasks add up their layers' measured times: the backward in one piece,
// its slices and its halves each by their own, and a repeated forward.
func TestPriceByMeasurements(t *testing.T) {
	n, err := models.Model{Family: "gpt", Layers: 2, Hidden: 16, Heads: 2, Vocab: 64, SequenceLength: 8}.Network()
	require.NoError(t, err)
	var list []costmodel.Measured
	for i, l := range n.Distinct() {
		scale := units.Duration(1) << (8 * i)
		list = append(list, costmodel.Measured{Layer: l.Signature(), Samples: 2, Forward: 10 * scale, Backward: 25 * scale, InputGradient: 16 * scale, WeightGradient: 11 * scale})
	}
	// embed + 2 blocks + ln_f + head
	const all = 1 + 2<<8 + 1<<16 + 1<<24
	w := workload(t, n, []int32{0}, 2, 2)
	m := machine()
	m.Device.Measured = list
	m.Device.Updates = []costmodel.MeasuredUpdate{{Name: "adamw", PerTensor: 1000, Rate: 4e9}}
	price := func(w stages.Workload, name string) map[graph.Kind]time.Duration {
		g := graphOf(t, w, orderOf(t, name, w))
		costs := costsOf(t, w, m, g)
		times := map[graph.Kind]time.Duration{}
		for i := range int32(g.Len()) {
			times[g.Task(i).Kind] = costs.Task(new(g.Task(i))).Busy
		}
		return times
	}
	times := price(w, "gpipe")
	require.EqualValues(t, 10*all, times[graph.Forward])
	require.EqualValues(t, 25*all, times[graph.Backward])
	const tensors = 2 + 2*12 + 2
	require.EqualValues(t, tensors*1000+n.Parameters(), times[graph.Optimizer], "1 ns per parameter of 4 bytes")

	w.Training.Recompute = "full"
	require.EqualValues(t, 25*all+10*2<<8, price(w, "gpipe")[graph.Backward])
	w.Training.Recompute = "selective"
	selective := price(w, "gpipe")[graph.Backward]
	require.Greater(t, selective, time.Duration(25*all))
	require.Less(t, selective, time.Duration(25*all+10*2<<8))

	w.Training = training.Options{Optimizer: "sgd"}
	require.NotEqual(t, times[graph.Optimizer], price(w, "gpipe")[graph.Optimizer], "sgd was not measured")
	compute, err := costmodel.NewCompute(m.Device, w.Training)
	require.NoError(t, err)
	var halves time.Duration
	for _, l := range n.Layers {
		halves += compute.Layer(l, network.InputGradient, 2) + compute.Layer(l, network.WeightGradient, 2)
	}
	require.EqualValues(t, 27*all, halves)
}

// The division of summed gradients takes what was measured of it, if it was.
func TestMeasuredAverage(t *testing.T) {
	n := mlp(t, 2, 3)
	w := workload(t, n, []int32{0}, 1)
	w.Replicas = 2
	m := machine()
	average := func() time.Duration {
		w = synced(w, 1<<30, false)
		g := graphOf(t, w, orderOf(t, "ddp", w))
		costs := costsOf(t, w, m, g)
		for i := range int32(g.Len()) {
			if g.Task(i).Kind == graph.Average {
				return costs.Task(new(g.Task(i))).Busy
			}
		}
		require.Fail(t, "there is no average")
		return 0
	}
	before := average()
	m.Device.Updates = []costmodel.MeasuredUpdate{{Name: costmodel.Averaging, PerTensor: 1000, Rate: 4e9}}
	require.NotEqual(t, before, average())
	require.EqualValues(t, 4*1000+n.Parameters(), average())
}
