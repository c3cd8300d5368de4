package kernels

import (
	"math"
	"testing"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"
)

// Sums by pieces give the layer norm and the gradients that plain sums give.
func TestNormByPieces(t *testing.T) {
	d, err := backend.OpenGo(0)
	require.NoError(t, err)
	defer d.Close()
	const rows, columns = 512, 256
	plain := runNorm(t, d, rows, columns)
	formsOf[d.Backend.Name()] = forms{pieces: true}
	defer delete(formsOf, d.Backend.Name())
	for i, got := range runNorm(t, d, rows, columns) {
		require.InDeltaSlice(t, plain[i], got, 1e-9)
	}
}

// runNorm returns the output, and the gradients of the input, the gain and the bias.
func runNorm(t *testing.T, d *backend.LocalDevice, rows, columns int) (results [][]float64) {
	s := &Programs{dtype: dtypes.Float64, index: map[string]int{}, slots: map[string]slot{}, names: map[string]string{}}
	s.addParameters(network.Layer{Params: []network.Tensor{{Name: "norm.weight", Shape: network.Dims{columns}},
		{Name: "norm.bias", Shape: network.Dims{columns}}}})
	given := backend.NamedTensors{}
	for name, dims := range map[string][]int{"x": {rows, columns}, "dy": {rows, columns},
		parameterKey + "norm.weight": {columns}, parameterKey + "norm.bias": {columns}} {
		values := make([]float64, shapes.Make(dtypes.Float64, dims...).Size())
		for i := range values {
			values[i] = math.Sin(float64(i*i + len(name)))
		}
		made, err := backend.Upload(d, values, dims...)
		require.NoError(t, err)
		defer made.Release()
		given[name] = made
	}
	p, err := backend.Compile(d.Backend, "a norm", func(b *backend.Inputs) []*graph.Node {
		sc, l := newScope(s, b), layerNorm{name: "norm", key: "norm"}
		y := l.forward(sc, b.Input("x", shapes.Make(s.dtype, rows, columns)))
		dx := l.input(sc, b.Input("dy", shapes.Make(s.dtype, rows, columns)))
		return []*graph.Node{y, dx, sc.gradients["norm.weight"], sc.gradients["norm.bias"]}
	})
	require.NoError(t, err)
	defer p.Close()
	made, err := p.Run(d, given, nil)
	require.NoError(t, err)
	defer backend.Tensors(made).Release()
	for _, tensor := range made {
		values, err := backend.Read[float64](tensor)
		require.NoError(t, err)
		results = append(results, values)
	}
	return results
}
