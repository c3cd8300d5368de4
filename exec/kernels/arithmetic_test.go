package kernels_test

import (
	"testing"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
)

func TestAddAndScale(t *testing.T) {
	d := device(t)
	a := kernels.NewArithmetic(d.Backend)
	defer a.Close()
	x, y := upload(t, d, []float64{1, 2, 3}, false, 3), upload(t, d, []float64{10, 20, 30}, false, 3)
	peak := kernels.Watch(d)
	x, err := a.Add(x, y)
	require.NoError(t, err)
	require.EqualValues(t, 24, peak(), "the sum takes the place of its first term")
	y.Release()
	list := backend.Tensors{x}
	require.NoError(t, a.Scale(list, 0.5))
	require.Equal(t, []float64{5.5, 11, 16.5}, read(t, list[0]))
	list.Release()
}

// Flatten and Unflatten give tensors back, whatever the number of chunks.
func TestLayoutRoundTrip(t *testing.T) {
	d := device(t)
	a := kernels.NewArithmetic(d.Backend)
	defer a.Close()
	tensors := []network.Tensor{{Shape: network.Dims{2, 3}}, {Shape: network.Dims{1}}, {Shape: network.Dims{4}}}
	for chunks := 1; chunks <= 13; chunks++ {
		l := kernels.Layout{Tensors: tensors, Chunks: chunks}
		list := backend.Tensors{
			upload(t, d, []float64{1, 2, 3, 4, 5, 6}, false, 2, 3), upload(t, d, []float64{7}, false, 1),
			upload(t, d, []float64{8, 9, 10, 11}, false, 4),
		}
		cut, err := a.Flatten(l, list)
		require.NoError(t, err)
		require.Len(t, cut, chunks)
		require.EqualValues(t, 4*chunks*l.Chunk(), d.Bytes())
		require.Equal(t, float64(1), read(t, cut[0])[0])
		back, err := a.Unflatten(l, cut)
		require.NoError(t, err)
		require.Equal(t, []int{2, 3}, back[0].Dimensions())
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, read(t, back[0]))
		require.Equal(t, []float64{7}, read(t, back[1]))
		require.Equal(t, []float64{8, 9, 10, 11}, read(t, back[2]))
		back.Release()
	}
}
