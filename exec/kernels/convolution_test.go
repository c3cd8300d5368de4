package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// For images and weights of any size, the result is the sum over nine taps, and so are its
// gradients.
func TestConvolution(t *testing.T) {
	d, err := backend.OpenGo(0)
	require.NoError(t, err)
	defer d.Close()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
		c := convolutionCase{n: draw("images", 3), height: draw("height", 5), width: draw("width", 5),
			in: draw("in", 24), out: draw("out", 40)}
		c.check(t, d)
	})
}

// The forms of other backends give the same, for many pixels and for few.
func TestOwnConvolution(t *testing.T) {
	d, err := backend.OpenGo(0)
	require.NoError(t, err)
	defer d.Close()
	formsOf[d.Backend.Name()] = formsOf["xla"]
	defer delete(formsOf, d.Backend.Name())
	for _, c := range []convolutionCase{{1, 1, 1, 1, 1}, {2, 5, 4, 3, 6}, {3, 2, 2, 24, 40}, {1, 1, 3, 20, 9},
		{2, 3, 1, 9, 20}} {
		c.check(t, d)
	}
}

// The same holds for tiles of 4×4, in blocks along no axis, one or both, and for few images
// with a large weight.
func TestConvolutionTiles(t *testing.T) {
	d, err := backend.OpenGo(0)
	require.NoError(t, err)
	defer d.Close()
	for _, c := range []convolutionCase{{2, 16, 32, 33, 40}, {1, 32, 32, 32, 32}, {2, 24, 40, 64, 64},
		{2, 17, 18, 36, 40}, {2, 2, 3, 70, 70}} {
		c.check(t, d)
	}
}

func (c convolutionCase) check(t require.TestingT, d *backend.LocalDevice) {
	got, want := runConvolution[float64](t, d, c, dtypes.Float64), c.sums()
	for i, name := range []string{"output", "input gradient", "weight gradient"} {
		require.InDeltaSlice(t, want[i], got[i], 1e-9, "%s of %v", name, c)
	}
}

type convolutionCase struct{ n, height, width, in, out int }

// values returns images, a gradient of the output and a weight, from a fixed seed.
func (c convolutionCase) values() (x, dy, w []float64) {
	source := rand.New(rand.NewPCG(3, 4))
	list := func(n int) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(float32(source.NormFloat64()))
		}
		return values
	}
	pixels := c.n * c.height * c.width
	return list(pixels * c.in), list(pixels * c.out), list(c.out * c.in * 9)
}

func runConvolution[T float32 | float64](t require.TestingT, d *backend.LocalDevice, c convolutionCase,
	dtype dtypes.DType) (results [3][]float64) {
	x, dy, w := c.values()
	inputs := backend.NamedTensors{}
	give := func(name string, values []float64, dims ...int) {
		list := make([]T, len(values))
		for i, v := range values {
			list[i] = T(v)
		}
		tensor, err := backend.Upload(d, list, dims...)
		require.NoError(t, err)
		inputs[name] = tensor
	}
	give("x", x, c.n, c.height, c.width, c.in)
	give("dy", dy, c.n, c.height, c.width, c.out)
	give(parameterKey+"conv.weight", w, c.out, c.in, 3, 3)
	give(parameterKey+"conv.bias", c.biases(), c.out)
	s := &Programs{dtype: dtype, index: map[string]int{}, slots: map[string]slot{}, names: map[string]string{}}
	s.addParameters(network.Layer{Params: []network.Tensor{
		{Name: "conv.weight", Shape: network.Dims{c.out, c.in, 3, 3}}, {Name: "conv.bias", Shape: network.Dims{c.out}},
	}})
	p, err := backend.Compile(d.Backend, "a convolution", func(b *backend.Inputs) []*graph.Node {
		sc, l := newScope(s, b), convolution{name: "conv"}
		y := l.forward(sc, b.Input("x", shapes.Make(s.dtype, c.n, c.height, c.width, c.in)))
		dx := l.input(sc, b.Input("dy", shapes.Make(s.dtype, c.n, c.height, c.width, c.out)))
		l.weight(sc)
		return []*graph.Node{y, dx, sc.gradients["conv.weight"]}
	})
	require.NoError(t, err)
	defer p.Close()
	made, err := p.Run(d, inputs, nil)
	require.NoError(t, err)
	for i, tensor := range made {
		values, err := backend.Read[T](tensor)
		require.NoError(t, err)
		for _, v := range values {
			results[i] = append(results[i], float64(v))
		}
		tensor.Release()
	}
	for _, tensor := range inputs {
		tensor.Release()
	}
	return results
}

// Tiles have the rounding errors that docs/pytorch.md says, relative to the deviation of the
// results.
func TestConvolutionRounding(t *testing.T) {
	d, err := backend.OpenGo(0)
	require.NoError(t, err)
	defer d.Close()
	for _, c := range []struct {
		name string
		convolutionCase
		most float64
	}{
		{"nine taps", convolutionCase{2, 8, 8, 256, 31}, 3e-7},
		{"tiles of 2×2", convolutionCase{2, 8, 8, 256, 32}, 6e-7},
		{"tiles of 4×4", convolutionCase{1, 16, 16, 256, 32}, 2e-6},
	} {
		got, exact := runConvolution[float32](t, d, c.convolutionCase, dtypes.Float32), c.sums()
		var off, all float64
		for i, v := range exact[0] {
			off += (got[0][i] - v) * (got[0][i] - v)
			all += v * v
		}
		t.Logf("%s: %.1e", c.name, math.Sqrt(off/all))
		require.Less(t, math.Sqrt(off/all), c.most, c.name)
	}
}

func (c convolutionCase) biases() []float64 {
	list := make([]float64, c.out)
	for i := range list {
		list[i] = float64(i) / 8
	}
	return list
}

// sums adds tap by tap.
func (c convolutionCase) sums() (results [3][]float64) {
	x, dy, w := c.values()
	y, dx, dw := make([]float64, len(dy)), make([]float64, len(x)), make([]float64, len(w))
	for p := range c.n * c.height * c.width {
		copy(y[p*c.out:], c.biases())
	}
	for p := range c.n * c.height * c.width {
		row, column := p/c.width%c.height, p%c.width
		for tap := range 9 {
			down, right := tap/3-1, tap%3-1
			if row+down < 0 || row+down >= c.height || column+right < 0 || column+right >= c.width {
				continue
			}
			q := p + down*c.width + right
			for o := range c.out {
				for i := range c.in {
					at := (o*c.in+i)*9 + tap
					y[p*c.out+o] += x[q*c.in+i] * w[at]
					dx[q*c.in+i] += dy[p*c.out+o] * w[at]
					dw[at] += dy[p*c.out+o] * x[q*c.in+i]
				}
			}
		}
	}
	return [3][]float64{y, dx, dw}
}
