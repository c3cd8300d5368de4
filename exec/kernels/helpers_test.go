package kernels_test

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
)

// build builds a model that must be right.
func build(t testing.TB, m models.Model) network.Network {
	n, err := m.Network()
	require.NoError(t, err)
	return n
}

func tinyGPT(t testing.TB) network.Network {
	return build(t, models.Model{Family: "gpt", Layers: 2, Hidden: 8, Heads: 2, Vocab: 11, SequenceLength: 4,
		Positions: 6})
}

// droppingGPT is an untied GPT with dropout.
func droppingGPT(t testing.TB) network.Network {
	no := false
	return build(t, models.Model{Family: "gpt", Layers: 2, Hidden: 6, Heads: 3, Vocab: 7, SequenceLength: 5, Tied: &no,
		Dropout: 0.3})
}

func untiedGPT(t testing.TB) network.Network {
	no := false
	return build(t, models.Model{Family: "gpt", Layers: 1, Hidden: 6, Heads: 3, Vocab: 7, SequenceLength: 5, Tied: &no})
}

func tinyMLP(t testing.TB) network.Network {
	return build(t, models.Model{Family: "mlp", Layers: 4, Hidden: 6})
}

// networks returns the networks for the tests of all layers.
func networks(t testing.TB) map[string]network.Network {
	return map[string]network.Network{
		"gpt": tinyGPT(t), "gpt untied": untiedGPT(t), "gpt dropout": droppingGPT(t), "mlp": tinyMLP(t),
		"vgg":        build(t, models.Model{Preset: "vgg-mini-pipeline"}),
		"vgg pooled": build(t, models.Model{Preset: "vgg-mini"}),
	}
}

func device(t testing.TB) *backend.LocalDevice {
	opened, err := backend.Open(1, backend.Options{Backend: os.Getenv("PSIM_BACKEND")}) // as make xla says
	require.NoError(t, err)
	d := opened[0]
	t.Cleanup(func() {
		require.Zero(t, d.Bytes(), "tensors left on the device")
		d.Close()
	})
	return d
}

// data is the samples of a batch: inputs and targets, flat.
type data struct {
	network network.Network
	tokens  []int32
	numbers []float64
	targets []int32
	samples int
}

func makeData(n network.Network, samples int) data {
	source := rand.New(rand.NewPCG(7, 7))
	first, last := n.Layers[0], n.Layers[len(n.Layers)-1]
	b := data{network: n, samples: samples}
	for range samples * int(first.Input.Elements()) {
		b.numbers = append(b.numbers, source.NormFloat64())
		if first.Kind == network.KindEmbedding {
			b.tokens = append(b.tokens, source.Int32N(int32(first.Params[0].Shape[0])))
		}
	}
	classes := last.Output[len(last.Output)-1]
	for range samples * int(last.Output.Elements()) / classes {
		b.targets = append(b.targets, source.Int32N(int32(classes)))
	}
	return b
}

// part is a run of samples on a device.
func (b data) part(t testing.TB, d *backend.LocalDevice, s *kernels.Programs, double bool,
	from, samples int) *backend.DeviceTensor {
	size := int(b.network.Layers[0].Input.Elements())
	dims := s.InputDimensions()
	var x *backend.DeviceTensor
	var err error
	switch {
	case b.tokens != nil:
		x, err = backend.Upload(d, b.tokens[from*size:(from+samples)*size], dims...)
	case double:
		x, err = backend.Upload(d, b.numbers[from*size:(from+samples)*size], dims...)
	default:
		x, err = backend.Upload(d, single(b.numbers[from*size:(from+samples)*size]), dims...)
	}
	require.NoError(t, err)
	return x
}

func (b data) target(t testing.TB, d *backend.LocalDevice, from, samples int) *backend.DeviceTensor {
	size := len(b.targets) / b.samples
	y, err := backend.Upload(d, b.targets[from*size:(from+samples)*size], samples*size)
	require.NoError(t, err)
	return y
}

func single(values []float64) []float32 {
	list := make([]float32, len(values))
	for i, v := range values {
		list[i] = float32(v)
	}
	return list
}

func upload(t testing.TB, d *backend.LocalDevice, values []float64, double bool, dims ...int) *backend.DeviceTensor {
	var x *backend.DeviceTensor
	var err error
	if double {
		x, err = backend.Upload(d, values, dims...)
	} else {
		x, err = backend.Upload(d, single(values), dims...)
	}
	require.NoError(t, err)
	return x
}

// read reads a tensor of either type.
func read(t testing.TB, x *backend.DeviceTensor) []float64 {
	if values, err := backend.Read[float64](x); err == nil {
		return values
	}
	values, err := backend.Read[float32](x)
	require.NoError(t, err)
	list := make([]float64, len(values))
	for i, v := range values {
		list[i] = float64(v)
	}
	return list
}

// A pipe is a network that is split into stages, all on one device.
type pipe struct {
	device  *backend.LocalDevice
	stages  []*kernels.Programs
	params  []backend.Tensors
	options kernels.Options
	halves  bool // I and W instead of B
}

// newPipe splits a network before the given layers.
func newPipe(t testing.TB, d *backend.LocalDevice, n network.Network, o kernels.Options, cuts ...int) *pipe {
	p := &pipe{device: d, options: o}
	from := 0
	for _, to := range append(cuts, len(n.Layers)) {
		s, err := kernels.Compile(d.Backend, n.Layers[from:to], o)
		require.NoError(t, err)
		list, err := s.Initialize(d, 42)
		require.NoError(t, err)
		p.stages, p.params = append(p.stages, s), append(p.params, list)
		from = to
	}
	return p
}

func (p *pipe) close() {
	for i, s := range p.stages {
		p.params[i].Release()
		s.Close()
	}
}

// forward runs F of a microbatch that begins at a sample.
func (p *pipe) forward(t testing.TB, b data, from int) (loss float64, saved []*kernels.Saved) {
	n := p.options.Samples
	x := b.part(t, p.device, p.stages[0], p.options.IsDouble(), from, n)
	for i, s := range p.stages {
		var targets *backend.DeviceTensor
		if s.Last() {
			targets = b.target(t, p.device, from, n)
		}
		y, kept, err := s.Forward(p.params[i], x, targets, kernels.MaskSeed{Seed: 42, Sample: from})
		require.NoError(t, err)
		x.Release()
		targets.Release()
		x, saved = y, append(saved, kept)
	}
	loss = read(t, x)[0]
	x.Release()
	return loss, saved
}

// backward runs the backward of a microbatch. Scale multiplies the loss.
func (p *pipe) backward(t testing.TB, saved []*kernels.Saved, scale float64) map[string][]float64 {
	all := map[string][]float64{}
	dy := upload(t, p.device, []float64{scale}, p.options.IsDouble())
	for i := len(p.stages) - 1; i >= 0; i-- {
		gradients := p.zeros(t, i)
		dx := p.stageBackward(t, i, saved[i], dy, gradients)
		dy.Release()
		dy = dx
		addTo(t, all, p.stages[i], gradients)
		gradients.Release()
	}
	require.Nil(t, dy)
	return all
}

// zeros returns gradients to begin with.
func (p *pipe) zeros(t testing.TB, i int) backend.Tensors {
	var list backend.Tensors
	for _, tensor := range p.stages[i].Parameters() {
		list = append(list, upload(t, p.device, make([]float64, tensor.Shape.Elements()), p.options.IsDouble(),
			tensor.Shape...))
	}
	return list
}

// stageBackward adds gradients to sums and returns the gradient of the input.
func (p *pipe) stageBackward(t testing.TB, i int, saved *kernels.Saved, dy *backend.DeviceTensor,
	sums backend.Tensors) *backend.DeviceTensor {
	s := p.stages[i]
	if !p.halves {
		dx, err := s.Backward(p.params[i], saved, dy, sums)
		require.NoError(t, err)
		return dx
	}
	dx, work, err := s.InputGradient(p.params[i], saved, dy)
	require.NoError(t, err)
	require.NoError(t, s.WeightGradient(work, sums))
	return dx
}

func addTo(t testing.TB, all map[string][]float64, s *kernels.Programs, gradients backend.Tensors) {
	for i, tensor := range s.Parameters() {
		values := read(t, gradients[i])
		if all[tensor.Name] == nil {
			all[tensor.Name] = make([]float64, len(values))
		}
		for k, v := range values {
			all[tensor.Name][k] += v
		}
	}
}

// step runs a batch in microbatches and returns the mean loss and its gradients.
func (p *pipe) step(t testing.TB, b data) (float64, map[string][]float64) {
	n := p.options.Samples
	sum, all := 0.0, map[string][]float64{}
	for from := 0; from < b.samples; from += n {
		loss, saved := p.forward(t, b, from)
		sum += loss
		for name, values := range p.backward(t, saved, 1/float64(len(b.targets))) {
			if all[name] == nil {
				all[name] = make([]float64, len(values))
			}
			for k, v := range values {
				all[name][k] += v
			}
		}
	}
	return sum / float64(len(b.targets)), all
}

// near compares gradients, relative to the largest of each tensor.
func near(t testing.TB, want, got map[string][]float64, tolerance float64) {
	require.Equal(t, len(want), len(got))
	for name, values := range want {
		largest := 1e-3
		for _, v := range values {
			largest = max(largest, v, -v)
		}
		for i, v := range values {
			if !(math.Abs(v-got[name][i]) <= tolerance*largest) { // InDelta is slow, and there are many numbers
				require.InDelta(t, v, got[name][i], tolerance*largest, "%s[%d]", name, i)
			}
		}
	}
}

// isNorm reports whether a parameter belongs to a layer norm.
func isNorm(name string) bool { return strings.Contains(name, "ln_") }
