package measure_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/exectest"
	"psim/exec/kernels"
	"psim/exec/measure"
)

func twoDevices(t testing.TB) []*backend.LocalDevice {
	devices, err := backend.Open(2, exectest.Options())
	require.NoError(t, err)
	t.Cleanup(func() { backend.Close(devices) })
	return devices
}

func layerOptions(samples ...int) measure.LayerOptions {
	return measure.LayerOptions{Samples: samples, Repeats: 2, Optimizer: kernels.DefaultOptimizer("adamw")}
}

// Every distinct layer is measured for every size, and all tensors are freed.
func TestProfileLayers(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, n := range []network.Network{exectest.MiniGPT(t), exectest.MiniMLP(t)} {
		devices := twoDevices(t)
		o := layerOptions(4, 1, 4)
		var seen []int
		total := 0
		o.Progress = func(done, of int) { seen, total = append(seen, done), of }
		p, err := measure.Layers(context.Background(), n, devices, o)
		require.NoError(t, err)
		distinct := n.Distinct()
		require.Len(t, p.Layers, 2*len(distinct), "sizes are sorted, each once")
		require.Less(t, len(distinct), len(n.Layers))
		for i, l := range p.Layers {
			require.Equal(t, distinct[i/2].Signature(), l.Layer.Signature())
			require.Equal(t, []int{1, 4}[i%2], l.Samples)
			for _, took := range []int64{int64(l.Forward), int64(l.Backward), int64(l.InputGradient)} {
				require.Positive(t, took, l.Layer.Name)
			}
			if len(l.Layer.Params) > 0 {
				require.Positive(t, l.WeightGradient)
			}
		}
		var bytes int64
		for i, u := range p.Updates {
			require.Positive(t, u.Time)
			require.Positive(t, p.Scales[i].Time)
			require.Equal(t, []int64{int64(u.Tensors), u.Bytes}, []int64{int64(p.Scales[i].Tensors), p.Scales[i].Bytes})
			require.Equal(t, len(distinct[i].Params), u.Tensors)
			bytes += u.Bytes
		}
		var want int64
		for _, l := range distinct {
			want += 4 * l.Parameters()
		}
		require.Equal(t, want, bytes)
		require.GreaterOrEqual(t, len(p.Copies), 3)
		require.Positive(t, p.Call)
		require.Len(t, p.Sums, 3)
		for _, s := range p.Sums {
			require.Positive(t, s.Time)
			require.Positive(t, s.Bytes)
		}
		require.Len(t, seen, total)
		for _, d := range devices {
			require.Zero(t, d.Bytes(), "all tensors are freed")
		}
	}
}

// It stops between two passes, and says what it cannot measure.
func TestProfileLayersStops(t *testing.T) {
	devices := twoDevices(t)
	ctx, cancel := context.WithCancel(context.Background())
	o := layerOptions(1)
	o.Progress = func(done, _ int) {
		if done == 2 {
			cancel()
		}
	}
	_, err := measure.Layers(ctx, exectest.MiniGPT(t), devices, o)
	require.ErrorIs(t, err, context.Canceled)
	for _, d := range devices {
		require.Zero(t, d.Bytes())
	}
	llama, err := models.Model{Family: "llama", Layers: 1, Hidden: 16, Heads: 2, FFNHidden: 32, Vocab: 8,
		SequenceLength: 4}.Network()
	require.NoError(t, err)
	for _, c := range []struct {
		network network.Network
		devices []*backend.LocalDevice
		options measure.LayerOptions
		want    string
	}{
		{llama, devices, layerOptions(1), "layer embed: there are programs for"},
		{exectest.MiniMLP(t), devices[:1], layerOptions(1), "1 devices"},
		{exectest.MiniMLP(t), devices, layerOptions(), "samples = []"},
		{exectest.MiniMLP(t), devices, layerOptions(2, 0), "samples = [2 0]"},
		{exectest.MiniMLP(t), devices, measure.LayerOptions{Samples: []int{1}}, "repeats = 0"},
		{network.Network{}, devices, layerOptions(1), "without layers"},
	} {
		_, err := measure.Layers(context.Background(), c.network, c.devices, c.options)
		require.ErrorContains(t, err, c.want)
		require.Zero(t, devices[0].Bytes())
	}
}
