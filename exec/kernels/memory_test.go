package kernels_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
)

// What Forward saves and what InputGradient leaves are the network's buffers, to the byte, for
// the whole network and for stages of one layer. Gains and biases of norms are the only
// gradients in Deferred. Stages of one layer test KeepsOutput.
func TestHeldBytesAreThoseOfArch(t *testing.T) {
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			d, b := device(t), makeData(n, 3)
			for _, recompute := range []kernels.Recompute{kernels.SaveAll, kernels.RepeatLayer} {
				for _, cuts := range [][]int{nil, everyLayer(n)} {
					p := newPipe(t, d, n, kernels.Options{Samples: 3, Recompute: recompute}, cuts...)
					from := 0
					_, saved := p.forward(t, b, 0)
					dy := upload(t, d, []float64{1}, false)
					for i, to := range append(cuts, len(n.Layers)) {
						require.Equal(t, keptBytes(n.Layers[from:to], 3, recompute), saved[i].Bytes(), "%s %v",
							n.Layers[from].Name, saved[i].Items())
						from = to
					}
					for i := len(p.stages) - 1; i >= 0; i-- {
						to := from
						if from = 0; i > 0 {
							from = cuts[i-1]
						}
						dx, work, err := p.stages[i].InputGradient(p.params[i], saved[i], dy)
						require.NoError(t, err)
						require.Equal(t, workBytes(n.Layers[from:to], 3), work.Bytes(), "%s %v", n.Layers[from].Name,
							work.Items())
						work.Release()
						dy.Release()
						dy = dx
					}
					p.close()
				}
			}
		})
	}
}

func everyLayer(n network.Network) (cuts []int) {
	for i := 1; i < len(n.Layers); i++ {
		cuts = append(cuts, i)
	}
	return cuts
}

// keptBytes returns the bytes that Forward keeps, according to the network.
func keptBytes(layers []network.Layer, samples int64, recompute kernels.Recompute) (sum int64) {
	training := training.Options{}
	if recompute == kernels.RepeatLayer {
		training.Recompute = "full"
	}
	for i, l := range layers {
		for _, b := range training.Kept(l) {
			sum += samples * b.Bytes(4)
		}
		repeats := training.Recompute == "full" && l.Repeatable
		if i == len(layers)-1 && l.KeepsOutput && !repeats {
			sum += samples * 4 * l.Output.Elements()
		}
	}
	return sum
}

// workBytes returns the bytes of the buffers that W reads, and of the gradients of norms.
func workBytes(layers []network.Layer, samples int64) (sum int64) {
	for _, l := range layers {
		bytes := network.BufferBytes(l.Buffers, 4, 1)
		sum += samples * (bytes[network.ForwardToWeight] + bytes[network.InputToWeight])
		for _, p := range l.Params {
			if isNorm(p.Name) {
				sum += 4 * p.Shape.Elements()
			}
		}
	}
	return sum
}

// Released memory is used again: ten runs need less new memory than five results take.
func TestReleasedMemoryServesAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("with the race detector, pools drop what they are given at random")
	}
	d := device(t)
	a := kernels.NewArithmetic(d.Backend)
	defer a.Close()
	const n = 1 << 18
	b := upload(t, d, make([]float64, n), false, n)
	defer b.Release()
	add := func() {
		sum, err := a.Add(b.Retain(), b)
		require.NoError(t, err)
		sum.Release()
	}
	add()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector empties pools
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		add()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(5*4*n))
}
