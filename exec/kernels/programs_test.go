package kernels_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Microbatches of 3 and 1 samples add up to the batch of 4.
func TestUnequalMicrobatches(t *testing.T) {
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			d, b := device(t), makeData(n, 4)
			whole := newPipe(t, d, n, kernels.Options{Samples: 4})
			defer whole.close()
			loss, gradients := whole.step(t, b)
			sum, all := 0.0, map[string][]float64{}
			for _, part := range [][2]int{{0, 3}, {3, 1}} {
				p := newPipe(t, d, n, kernels.Options{Samples: part[1]}, 1)
				share, saved := p.forward(t, b, part[0])
				sum += share
				for name, values := range p.backward(t, saved, 1/float64(len(b.targets))) {
					if all[name] == nil {
						all[name] = make([]float64, len(values))
					}
					for k, v := range values {
						all[name][k] += v
					}
				}
				p.close()
			}
			require.InDelta(t, loss, sum/float64(len(b.targets)), 1e-5)
			near(t, gradients, all, 1e-5)
		})
	}
}

// Parameters are the same however a network is split, including a tied copy, and differ by name
// and seed.
func TestInitialisation(t *testing.T) {
	n := tinyGPT(t)
	d := device(t)
	values := map[string][]float64{}
	for _, cuts := range [][]int{{}, {1, 2, 3, 4}} {
		p := newPipe(t, d, n, kernels.Options{Samples: 1}, cuts...)
		for i, s := range p.stages {
			for k, tensor := range s.Parameters() {
				got := read(t, p.params[i][k])
				if values[tensor.Name] == nil {
					values[tensor.Name] = got
				}
				require.Equal(t, values[tensor.Name], got, tensor.Name)
			}
		}
		p.close()
	}
	require.Len(t, values, len(n.ParameterTensors()))
	require.NotEqual(t, values["h.0.attn.c_proj.weight"], values["h.1.attn.c_proj.weight"])
	table := n.Layers[0].Params[0]
	require.NotEqual(t, kernels.Initial[float64](1, table), kernels.Initial[float64](2, table))
}

// Weights begin like those of torchvision's vgg16(weights=None): Kaiming normal over fan-out
// for convolutions, N(0, 0.01) for linear layers; and like those of Hugging Face's GPT-2: N(0,
// 0.02), and N(0, 0.02/√(2·layers)) at the end of a residual branch. Biases are 0, gains 1, and
// all others are initialised after He.
func TestStartValues(t *testing.T) {
	vgg := build(t, models.Model{Preset: "vgg16-pipeline"})
	gpt := build(t, models.Model{Preset: "gpt2", Layers: 8})
	mlp := build(t, models.Model{Preset: "mlp"})
	for _, c := range []struct {
		network         network.Network
		name            string
		mean, deviation float64
	}{
		{vgg, "features.0.weight", 0, math.Sqrt(2.0 / (9 * 64))},
		{vgg, "features.7.weight", 0, math.Sqrt(2.0 / (9 * 128))},
		{vgg, "features.28.weight", 0, math.Sqrt(2.0 / (9 * 512))}, {vgg, "features.28.bias", 0, 0},
		{vgg, "classifier.0.weight", 0, 0.01}, {vgg, "classifier.6.weight", 0, 0.01}, {vgg, "classifier.6.bias", 0, 0},
		{gpt, "wte.weight", 0, 0.02}, {gpt, "wpe.weight", 0, 0.02}, {gpt, "h.7.attn.c_attn.weight", 0, 0.02},
		{gpt, "h.0.mlp.c_fc.weight", 0, 0.02},
		{gpt, "h.0.attn.c_proj.weight", 0, 0.005}, {gpt, "h.7.mlp.c_proj.weight", 0, 0.005},
		{gpt, "h.0.mlp.c_proj.bias", 0, 0},
		{gpt, "ln_f.weight", 1, 0}, {gpt, "ln_f.bias", 0, 0}, {gpt, "h.3.ln_2.weight", 1, 0},
		{mlp, "fc0.weight", 0, math.Sqrt(2.0 / 1024)}, {mlp, "fc7.bias", 0, 0},
	} {
		list := c.network.ParameterTensors()
		i := slices.IndexFunc(list, func(t network.Tensor) bool { return t.Name == c.name })
		require.GreaterOrEqual(t, i, 0, c.name)
		values := kernels.Initial[float64](3, list[i])
		n, sum, squares := float64(len(values)), 0.0, 0.0
		for _, v := range values {
			sum += v
			squares += (v - c.mean) * (v - c.mean)
		}
		// Four standard errors of a mean, and of a deviation.
		require.InDelta(t, c.mean, sum/n, 4*c.deviation/math.Sqrt(n), c.name)
		require.InDelta(t, c.deviation, math.Sqrt(squares/n), 4*c.deviation/math.Sqrt(2*n), c.name)
	}
}

// The loss before training is about that of equal probabilities, for whole networks and small
// ones.
func TestUntrainedLoss(t *testing.T) {
	for _, c := range []struct {
		model   models.Model
		classes float64
		large   bool
	}{
		{models.Model{Preset: "vgg16-pipeline"}, 10, true}, {models.Model{Preset: "vgg-mini"}, 10, false},
		{models.Model{Preset: "vgg-mini-pipeline"}, 10, false},
		{models.Model{Preset: "gpt2", Layers: 2, SequenceLength: 16, Positions: 16}, 50257, true},
		{models.Model{Family: "gpt", Layers: 2, Hidden: 32, Heads: 4, Vocab: 100, SequenceLength: 8}, 100, false},
	} {
		if c.large && testing.Short() {
			continue
		}
		n := build(t, c.model)
		p := newPipe(t, device(t), n, kernels.Options{Samples: 4})
		b := makeData(n, 4)
		loss, saved := p.forward(t, b, 0)
		saved[0].Release()
		require.InEpsilon(t, math.Log(c.classes), loss/float64(len(b.targets)), 0.02, n.Name)
		p.close()
	}
}

// A target below 0 counts neither in the loss nor in the gradients. The expected values are
// computed by hand; the inputs are the logits.
func TestIgnoredTargets(t *testing.T) {
	n := build(t, models.Model{Family: "mlp", Layers: 1, Hidden: 3})
	p := newPipe(t, device(t), n, kernels.Options{Samples: 3})
	defer p.close()
	p.params[0][0].Release()
	p.params[0][0] = upload(t, p.device, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}, false, 3, 3)
	ln2, ln3, ln6 := math.Log(2), math.Log(3), math.Log(6)
	b := data{
		network: n, samples: 3,
		numbers: []float64{0, ln2, 0, ln3, 0, 0, 0, 0, ln6}, // probabilities ¼ ½ ¼, 3/5 1/5 1/5, ⅛ ⅛ ¾
		targets: []int32{1, -1, 0},
	}
	for _, p.halves = range []bool{false, true} {
		loss, saved := p.forward(t, b, 0)
		require.InDelta(t, math.Log(2)+math.Log(8), loss, 1e-6)
		gradients := p.backward(t, saved, 0.5)
		require.InDeltaSlice(t, []float64{-5. / 16, -3. / 16, 1. / 2}, gradients["fc0.bias"], 1e-6)
		require.InDeltaSlice(t, []float64{
			0, ln2 / 8, -ln6 * 7 / 16,
			0, -ln2 / 4, ln6 / 16,
			0, ln2 / 8, ln6 * 3 / 8,
		}, gradients["fc0.weight"], 1e-6)
	}
}

// Huge logits and activations do not overflow the loss or the gradients.
func TestExtremes(t *testing.T) {
	for name, n := range map[string]network.Network{"gpt": tinyGPT(t), "mlp": tinyMLP(t)} {
		t.Run(name, func(t *testing.T) {
			p := newPipe(t, device(t), n, kernels.Options{Samples: 2})
			defer p.close()
			for i, x := range p.params[0] {
				values := read(t, x)
				for k := range values {
					values[k] *= 300
				}
				p.params[0][i] = upload(t, p.device, values, false, x.Dimensions()...)
				x.Release()
			}
			loss, gradients := p.step(t, makeData(n, 2))
			require.False(t, math.IsNaN(loss) || math.IsInf(loss, 0))
			for name, values := range gradients {
				for _, v := range values {
					require.False(t, math.IsNaN(v) || math.IsInf(v, 0), name)
				}
			}
		})
	}
}

// Two devices at once, and two microbatches at once on one device, give the same bits as one
// alone.
func TestConcurrent(t *testing.T) {
	n := tinyGPT(t)
	b := makeData(n, 2)
	run := func(p *pipe) string {
		loss, gradients := p.step(t, b)
		return fmt.Sprint(loss, gradients)
	}
	first, second := newPipe(t, device(t), n, kernels.Options{Samples: 1}),
		newPipe(t, device(t), n, kernels.Options{Samples: 1})
	defer first.close()
	defer second.close()
	want := run(first)
	var wait sync.WaitGroup
	results := make([]string, 4)
	for i := range results {
		wait.Go(func() { results[i] = run([]*pipe{first, second}[i%2]) })
	}
	wait.Wait()
	for _, got := range results {
		require.Equal(t, want, got)
	}
}

func TestErrors(t *testing.T) {
	d := device(t)
	llama := build(t, models.Model{Preset: "tinyllama-1.1b", SequenceLength: 8})
	_, err := kernels.Compile(d.Backend, llama.Layers[1:2], kernels.Options{Samples: 1})
	require.ErrorContains(t, err, "layer layers.0: there are programs for gpt, mlp and vgg16 only")
	n := tinyMLP(t)
	_, err = kernels.Compile(d.Backend, n.Layers, kernels.Options{})
	require.ErrorContains(t, err, "0 samples")
	broken := n.Layers[1]
	broken.Params = []network.Tensor{{Name: "fc1.weight", Shape: network.Dims{6, 5}}, broken.Params[1]}
	_, err = kernels.Compile(d.Backend, []network.Layer{n.Layers[0], broken}, kernels.Options{Samples: 1})
	require.ErrorContains(t, err, "compiling stage fc0…fc1, forward, layer fc1: gomlx")

	p := newPipe(t, d, n, kernels.Options{Samples: 2})
	defer p.close()
	s, x := p.stages[0], upload(t, d, make([]float64, 6), false, 1, 6)
	defer x.Release()
	_, _, err = s.Forward(p.params[0], x, nil, kernels.MaskSeed{})
	require.ErrorContains(t, err, "stage fc0…fc3, forward: no tensor for targets")
	_, _, err = s.Forward(p.params[0][:1], x, nil, kernels.MaskSeed{})
	require.ErrorContains(t, err, "1 parameters, not 8")
	_, _, err = s.Forward(p.params[0], nil, nil, kernels.MaskSeed{})
	require.ErrorContains(t, err, "stage fc0…fc3, forward: no input")
	y, err := backend.Upload(d, []int32{1}, 1)
	require.NoError(t, err)
	defer y.Release()
	_, _, err = s.Forward(p.params[0], x, y, kernels.MaskSeed{})
	require.ErrorContains(t, err, "stage fc0…fc3, forward")
	_, err = backend.Upload(d, []float32{1, 2}, 3)
	require.ErrorContains(t, err, "2 values")
	_, err = backend.Read[int32](x)
	require.ErrorContains(t, err, "not Int32")
}

// Opening a backend prints nothing on standard output.
func TestOpenGoIsSilent(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	kept := os.Stdout
	os.Stdout = w
	d := device(t)
	os.Stdout = kept
	w.Close()
	said := make([]byte, 100)
	count, _ := r.Read(said)
	r.Close()
	require.Zero(t, count, string(said[:count]))
	require.Zero(t, d.Bytes())
}

// The ledger counts tensors while somebody holds them.
func TestLedger(t *testing.T) {
	d, other := device(t), device(t)
	peak := kernels.Watch(d)
	x := upload(t, d, make([]float64, 10), false, 2, 5)
	require.EqualValues(t, 40, d.Bytes())
	copied, err := x.CopyTo(other)
	require.NoError(t, err)
	require.EqualValues(t, 40, other.Bytes())
	x.Retain()
	x.Release()
	require.EqualValues(t, 40, d.Bytes())
	x.Release()
	require.Zero(t, d.Bytes())
	require.EqualValues(t, 40, peak())
	require.Equal(t, make([]float64, 10), read(t, copied))
	copied.Release()
	require.Panics(t, copied.Release)
}
