package backend_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/backend"
)

// packed returns a device, and a message with some tensors. One tensor is nil.
func packed(t testing.TB) (*backend.LocalDevice, []byte) {
	d, err := backend.OpenGo(0)
	require.NoError(t, err)
	t.Cleanup(d.Close)
	var list backend.Tensors
	for _, dims := range [][]int{{2, 3}, {}, {4}} {
		n := 1
		for _, k := range dims {
			n *= k
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(len(list)) + float32(i)/8
		}
		x, err := backend.Upload(d, values, dims...)
		require.NoError(t, err)
		list = append(list, x, nil)
	}
	data, err := list.Pack()
	require.NoError(t, err)
	list.Release()
	require.Zero(t, d.Bytes())
	return d, data
}

// Tensors arrive as they were sent.
func TestPack(t *testing.T) {
	d, data := packed(t)
	for shift := range 4 { // at any alignment
		list, err := backend.Unpack(d, append(make([]byte, shift, shift+len(data)), data...)[shift:])
		require.NoError(t, err)
		require.Len(t, list, 6)
		require.Nil(t, list[1])
		require.Equal(t, []int{2, 3}, list[0].Dimensions())
		require.Empty(t, list[2].Dimensions())
		values, err := backend.Read[float32](list[4])
		require.NoError(t, err)
		require.Equal(t, []float32{4, 4.125, 4.25, 4.375}, values)
		list.Release()
	}
	require.Zero(t, d.Bytes())
	whole, err := backend.Upload(d, []int32{1}, 1)
	require.NoError(t, err)
	defer whole.Release()
	_, err = backend.Tensors{whole}.Pack()
	require.ErrorContains(t, err, "not fp32")
}

// A message that is truncated or changed is refused, and leaves nothing on the device.
func FuzzUnpack(f *testing.F) {
	d, data := packed(f)
	f.Add(data)
	for n := range len(data) {
		f.Add(data[:n])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := backend.Unpack(d, data)
		if err != nil {
			require.Empty(t, list)
		}
		list.Release()
		require.Zero(t, d.Bytes())
	})
}
