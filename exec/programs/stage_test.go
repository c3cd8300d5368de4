package programs_test

import (
	"fmt"
	"math"
	"os"
	"sync"
	"testing"

	"psim/costmodel/arch"
	"psim/exec/programs"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Microbatches of 3 and 1 samples add up to the batch of 4.
func TestUnequalMicrobatches(t *testing.T) {
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			d, b := device(t), makeData(n, 4)
			whole := newPipe(t, d, n, programs.Options{Samples: 4})
			defer whole.close()
			loss, gradients := whole.step(t, b)
			sum, all := 0.0, map[string][]float64{}
			for _, part := range [][2]int{{0, 3}, {3, 1}} {
				p := newPipe(t, d, n, programs.Options{Samples: part[1]}, 1)
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

// Parameters are the same however a network is split, a tied copy included, and
// differ by name and seed.
func TestInitialisation(t *testing.T) {
	n := tinyGPT(t)
	d := device(t)
	values := map[string][]float64{}
	for _, cuts := range [][]int{{}, {1, 2, 3, 4}} {
		p := newPipe(t, d, n, programs.Options{Samples: 1}, cuts...)
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
	require.NotEqual(t, programs.Initial[float64](1, table), programs.Initial[float64](2, table))
	square := 0.0
	big := arch.Tensor{Name: "fc.weight", Shape: arch.Shape{200, 50}}
	for _, v := range programs.Initial[float64](1, big) {
		square += v * v / 1e4
	}
	require.InDelta(t, math.Sqrt(2.0/50), math.Sqrt(square), 0.01)
}

// The untrained loss is that of equal probabilities, nearly: a check against a
// number that is known.
func TestUntrainedLoss(t *testing.T) {
	n := network(t, arch.Model{Family: "gpt", Layers: 2, Hidden: 32, Heads: 4, Vocab: 100, SequenceLength: 8})
	p := newPipe(t, device(t), n, programs.Options{Samples: 4})
	defer p.close()
	b := makeData(n, 4)
	loss, saved := p.forward(t, b, 0)
	saved[0].Release()
	require.InDelta(t, math.Log(100), loss/float64(len(b.targets)), 0.05)
}

// Huge logits and activations overflow neither loss nor gradients.
func TestExtremes(t *testing.T) {
	for name, n := range map[string]arch.Network{"gpt": tinyGPT(t), "mlp": tinyMLP(t)} {
		t.Run(name, func(t *testing.T) {
			p := newPipe(t, device(t), n, programs.Options{Samples: 2})
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

// Two devices at once, and two microbatches at once on one device, give the
// bits of one alone.
func TestConcurrent(t *testing.T) {
	n := tinyGPT(t)
	b := makeData(n, 2)
	run := func(p *pipe) string {
		loss, gradients := p.step(t, b)
		return fmt.Sprint(loss, gradients)
	}
	first, second := newPipe(t, device(t), n, programs.Options{Samples: 1}), newPipe(t, device(t), n, programs.Options{Samples: 1})
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
	llama := network(t, arch.Model{Preset: "tinyllama-1.1b", SequenceLength: 8})
	_, err := programs.Compile(d.Backend, llama.Layers[1:2], programs.Options{Samples: 1})
	require.ErrorContains(t, err, "layer layers.0: there are programs for gpt, mlp and vgg16 only")
	n := tinyMLP(t)
	_, err = programs.Compile(d.Backend, n.Layers, programs.Options{})
	require.ErrorContains(t, err, "0 samples")
	broken := n.Layers[1]
	broken.Params = []arch.Tensor{{Name: "fc1.weight", Shape: arch.Shape{6, 5}}, broken.Params[1]}
	_, err = programs.Compile(d.Backend, []arch.Layer{n.Layers[0], broken}, programs.Options{Samples: 1})
	require.ErrorContains(t, err, "compiling stage fc0…fc1, forward, layer fc1: gomlx")

	p := newPipe(t, d, n, programs.Options{Samples: 2})
	defer p.close()
	s, x := p.stages[0], upload(t, d, make([]float64, 6), false, 1, 6)
	defer x.Release()
	_, _, err = s.Forward(p.params[0], x, nil, programs.Draw{})
	require.ErrorContains(t, err, "stage fc0…fc3, forward: no tensor for targets")
	_, _, err = s.Forward(p.params[0][:1], x, nil, programs.Draw{})
	require.ErrorContains(t, err, "1 parameters, not 8")
	_, _, err = s.Forward(p.params[0], nil, nil, programs.Draw{})
	require.ErrorContains(t, err, "stage fc0…fc3, forward: no input")
	y, err := programs.Upload(d, []int32{1}, 1)
	require.NoError(t, err)
	defer y.Release()
	_, _, err = s.Forward(p.params[0], x, y, programs.Draw{})
	require.ErrorContains(t, err, "stage fc0…fc3, forward")
	_, err = programs.Upload(d, []float32{1, 2}, 3)
	require.ErrorContains(t, err, "2 values")
	_, err = programs.Read[int32](x)
	require.ErrorContains(t, err, "not Int32")
}

// A backend that is made says nothing on standard output.
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

// The ledger: tensors count while somebody holds them.
func TestLedger(t *testing.T) {
	d, other := device(t), device(t)
	peak := programs.Watch(d)
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
