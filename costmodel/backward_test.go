package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// computing computes 1 TFLOP/s and does nothing else.
func computing() costmodel.Machine {
	m := machine()
	m.Device.MemoryBandwidth, m.Device.Launch, m.Device.HalfRows = 0, 0, 0
	return m
}

// busy returns the time of every F and B of a network, whole, over so many samples.
func busy(t *testing.T, n network.Network, training training.Options, m costmodel.Machine, samples int64) (forward, backward graph.Cost) {
	w := workload(t, n, []int32{0}, samples)
	w.Training = training
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	costs := costsOf(t, w, m, g)
	for i := range int32(g.Len()) {
		switch g.Task(i).Kind {
		case graph.Forward:
			forward = costs.Task(new(g.Task(i)))
		case graph.Backward:
			backward = costs.Task(new(g.Task(i)))
		}
	}
	return forward, backward
}

// The products of VGG16's backward in two passes, by hand, in millions of
// multiply-adds of an image: every weight gradient, every input gradient, and again
// those behind the first convolution of every block.
func TestTwoPassProducts(t *testing.T) {
	const (
		conv1 = 32 * 32 * 9 * (3*64 + 64*64)
		conv2 = 16 * 16 * 9 * (64*128 + 128*128)
		conv3 = 8 * 8 * 9 * (128*256 + 256*256*2)
		conv4 = 4 * 4 * 9 * (256*512 + 512*512*2)
		conv5 = 2 * 2 * 9 * (512 * 512 * 3)
		dense = 512*4096 + 4096*4096 + 4096*10
		all   = conv1 + conv2 + conv3 + conv4 + conv5 + dense
		again = 32*32*9*64*64 + 16*16*9*128*128 + 8*8*9*256*256*2 + 4*4*9*512*512*2 + 2*2*9*512*512*2
	)
	n := build(t, models.Model{Preset: "vgg16-pipeline"})
	forward, backward := busy(t, n, training.Options{Backward: training.BackwardTwoPass}, computing(), 1)
	near := func(want float64, got time.Duration) { require.InEpsilon(t, 2*want/1e12, got.Seconds(), 1e-4) }
	near(all, forward.Busy)
	near(2*all+again, backward.Busy)
	_, whole := busy(t, n, training.Options{}, computing(), 1)
	near(2*all-32*32*9*3*64, whole.Busy)
	_, perLayer := busy(t, n, training.Options{Backward: training.BackwardPerLayer}, computing(), 1)
	require.Equal(t, whole.Busy, perLayer.Busy)
}

// Two passes cost I and W, and at most I again; what a step executes is what its tasks
// take at the device's rate.
func TestTwoPassLaws(t *testing.T) {
	networks := []network.Network{smallGPT(t), mlp(t, 4, 32), build(t, models.Model{Preset: "vgg-mini"}), build(t, models.Model{Preset: "vgg16-pipeline"}),
		build(t, models.Model{Family: "llama", Layers: 2, Hidden: 32, Heads: 4, KVHeads: 2, FFNHidden: 64, Vocab: 64, SequenceLength: 16})}
	rapid.Check(t, func(rt *rapid.T) {
		n := networks[rapid.IntRange(0, len(networks)-1).Draw(rt, "network")]
		samples := rapid.Int64Range(1, 9).Draw(rt, "samples")
		training := training.Options{Backward: training.BackwardTwoPass, DetectAnomaly: rapid.Bool().Draw(rt, "detect")}
		c, err := costmodel.NewCompute(device(), training)
		require.NoError(rt, err)
		for _, l := range n.Layers {
			input := c.Layer(l, network.InputGradient, samples)
			once := input + c.Layer(l, network.WeightGradient, samples)
			require.GreaterOrEqual(rt, c.Backward(l, samples), once)
			require.LessOrEqual(rt, c.Backward(l, samples), once+input)
		}
		w := workload(rt, n, []int32{0}, samples)
		w.Training = training
		staged := w.Staged()
		training.DetectAnomaly = false
		forward, backward := busy(t, n, training, computing(), samples)
		require.InDelta(rt, staged.FLOPs()/1e12, (forward.Busy + backward.Busy).Seconds(), 1e-7, "up to 200 products, each rounded to a nanosecond")
	})
}

// An mlp of 2 layers on 100 rows of 10: its backward makes four gradients that count (two
// weights', the hidden layer's input, the ReLU's) and the loss's. Each is looked through in
// two kernels of 1 µs, which move 6 bytes for every element at 100 GB/s.
func TestDetectAnomaly(t *testing.T) {
	n := mlp(t, 2, 10)
	_, plain := busy(t, n, training.Options{}, machine(), 100)
	_, detecting := busy(t, n, training.Options{DetectAnomaly: true}, machine(), 100)
	elements := 2*100 + 3*1000
	require.InDelta(t, 5*2*time.Microsecond+time.Duration(float64(elements)*6/100), detecting.Busy-plain.Busy, 5)
	before, _ := busy(t, n, training.Options{}, machine(), 100)
	after, _ := busy(t, n, training.Options{DetectAnomaly: true}, machine(), 100)
	require.Equal(t, before.Busy, after.Busy, "a forward makes no gradients")
}

// A host launches every kernel of both passes, and of detection.
func TestLaunchesOfTwoPasses(t *testing.T) {
	m := machine()
	m.Host = costmodel.HostTimes{Operation: units.Duration(time.Millisecond)}
	n := build(t, models.Model{Preset: "vgg16-pipeline"})
	n.Layers = n.Layers[:1] // two convolutions and their ReLUs
	launch := func(training training.Options) time.Duration {
		_, backward := busy(t, n, training, m, 1)
		return backward.Launch
	}
	require.Equal(t, 5*time.Millisecond, launch(training.Options{}))
	require.Equal(t, 15*time.Millisecond, launch(training.Options{DetectAnomaly: true}))
	require.Equal(t, 9*time.Millisecond, launch(training.Options{Backward: training.BackwardTwoPass}))
	require.Equal(t, 27*time.Millisecond, launch(training.Options{Backward: training.BackwardTwoPass, DetectAnomaly: true}))
}

// Of a layer that was measured, what runs twice is a part of its measured I.
func TestTwoPassMeasured(t *testing.T) {
	m, training := machine(), training.Options{Backward: training.BackwardTwoPass}
	n := build(t, models.Model{Preset: "vgg16-pipeline"})
	block := n.Layers[1]
	m.Device.Measured = []costmodel.Measured{{Layer: block.Signature(), Samples: 1, Forward: 1e9, Backward: 2e9, InputGradient: 4e9, WeightGradient: 3e9}}
	c, err := m.Compute(training)
	require.NoError(t, err)
	roofline, err := costmodel.NewCompute(device(), training)
	require.NoError(t, err)
	again := roofline.Backward(block, 1) - roofline.Layer(block, network.InputGradient, 1) - roofline.Layer(block, network.WeightGradient, 1)
	share := again.Seconds() / roofline.Layer(block, network.InputGradient, 1).Seconds()
	require.InEpsilon(t, 7+4*share, c.Backward(block, 1).Seconds(), 1e-6)
}
