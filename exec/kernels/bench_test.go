package kernels_test

import (
	"strings"
	"testing"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
)

// A GPT-2 block, batch 8 of 128 tokens, hidden 768: 14.9 GFLOP forward. docs/pytorch.md
// compares BenchmarkKernels.
func BenchmarkBlock(b *testing.B) {
	n := build(b, models.Model{Preset: "gpt2", SequenceLength: tokens(), Vocab: words()})
	benchmarkPasses(b, n.Layers[1:2], 8)
}

// The same block with dropout, and its masks.
func BenchmarkBlockDropout(b *testing.B) {
	n := build(b, models.Model{Preset: "gpt2", SequenceLength: tokens(), Vocab: words(), Dropout: 0.1})
	benchmarkPasses(b, n.Layers[1:2], 8)
}

// The head of GPT-2 on 4 samples of 128 tokens, with its loss over 50257 words.
func BenchmarkHead(b *testing.B) {
	n := build(b, models.Model{Preset: "gpt2", SequenceLength: tokens(), Vocab: words()})
	benchmarkPasses(b, n.Layers[len(n.Layers)-1:], 4)
}

// GPT-2's embedding of 8 samples of 128 tokens.
func BenchmarkEmbedding(b *testing.B) {
	n := build(b, models.Model{Preset: "gpt2", SequenceLength: tokens(), Vocab: words()})
	benchmarkPasses(b, n.Layers[:1], 8)
}

// The convolutions of VGG16 with ReLU and pooling, 16 images: 10 GFLOP forward.
func BenchmarkConvolutions(b *testing.B) {
	n := build(b, models.Model{Preset: "vgg16-pipeline"})
	benchmarkPasses(b, n.Layers[:5], 16)
}

// words returns the size of the vocabulary, if it is not the preset's.
func words() int {
	if testing.Short() {
		return 100
	}
	return 0
}

// tokens returns the length of a sequence.
func tokens() int {
	if testing.Short() {
		return 4
	}
	return 128
}

// benchmarkPasses times every pass by itself, and F, I and W together. It reports the rate of
// the products of F, I and W; recomputation does not count.
func benchmarkPasses(b *testing.B, layers []network.Layer, samples int) {
	for _, pass := range []string{"F", "I", "W", "F+I+W", "B", "B repeating"} {
		b.Run(pass, func(b *testing.B) {
			if testing.Short() {
				samples = 1 // only checks that it runs
			}
			o := kernels.Options{Samples: samples}
			if pass == "B repeating" {
				o.Recompute = kernels.RepeatStage
			}
			w := newWork(b, layers, o)
			defer w.close()
			w.run(pass)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				w.before(pass)
				b.StartTimer()
				w.timed(pass)
				b.StopTimer()
				w.after()
				b.StartTimer()
			}
			report(b, float64(int64(samples)*flops(layers, pass))/1e9)
		})
	}
}

// flops returns the operations of the passes that a letter stands for.
func flops(layers []network.Layer, pass string) (sum int64) {
	n := network.Network{Layers: layers}
	if pass[0] == 'B' {
		pass = "I+W"
	}
	for i, letter := range "FIW" {
		if strings.ContainsRune(pass, letter) {
			sum += int64(n.FLOPs(network.Pass(i)))
		}
	}
	return sum
}

func report(b *testing.B, gflop float64) {
	if gflop > 0 {
		b.ReportMetric(gflop*float64(b.N)/b.Elapsed().Seconds(), "GFLOP/s")
	}
}

// work is one stage with inputs for each of its passes.
type work struct {
	testing.TB
	pipe       *pipe
	x, y, dy   *backend.DeviceTensor
	out        *backend.DeviceTensor
	saved      *kernels.Saved
	left       *kernels.Deferred
	gradients  backend.Tensors
	stage      *kernels.Programs
	parameters backend.Tensors
}

func newWork(b *testing.B, layers []network.Layer, o kernels.Options) *work {
	n := network.Network{Layers: layers}
	w := &work{TB: b, pipe: newPipe(b, device(b), n, o)}
	w.stage, w.parameters = w.pipe.stages[0], w.pipe.params[0]
	batch := makeData(n, o.Samples)
	d := w.pipe.device
	w.gradients = w.pipe.zeros(b, 0)
	w.x = batch.part(b, d, w.stage, false, 0, o.Samples)
	if w.stage.Last() {
		w.y = batch.target(b, d, 0, o.Samples)
	}
	return w
}

func (w *work) close() {
	w.x.Release()
	w.y.Release()
	w.dy.Release()
	w.gradients.Release()
	w.pipe.close()
}

func (w *work) run(pass string) {
	w.before(pass)
	w.timed(pass)
	w.after()
}

// before runs the passes that precede the one that is timed.
func (w *work) before(pass string) {
	if pass[0] == 'F' {
		return
	}
	w.timed("F")
	w.gradient()
	if pass == "W" {
		w.timed("I")
	}
}

// gradient makes a gradient of the output, before anything is timed.
func (w *work) gradient() {
	if w.dy == nil {
		values := make([]float64, w.out.Bytes()/4)
		for i := range values {
			values[i] = float64(i%7-3) / 1000
		}
		w.dy = upload(w, w.pipe.device, values, false, w.out.Dimensions()...)
	}
}

func (w *work) timed(pass string) {
	var err error
	var dx *backend.DeviceTensor
	switch pass {
	case "F+I+W":
		w.timed("F")
		w.gradient()
		w.timed("I")
		w.timed("W")
	case "F":
		w.out, w.saved, err = w.stage.Forward(w.parameters, w.x, w.y, kernels.MaskSeed{})
	case "I":
		dx, w.left, err = w.stage.InputGradient(w.parameters, w.saved, w.dy)
	case "W":
		err = w.stage.WeightGradient(w.left, w.gradients)
	default:
		dx, err = w.stage.Backward(w.parameters, w.saved, w.dy, w.gradients)
	}
	require.NoError(w, err)
	dx.Release()
}

func (w *work) after() {
	if w.saved != nil {
		w.saved.Release()
	}
	if w.left != nil {
		w.left.Release()
	}
	w.out.Release()
	w.out, w.saved, w.left = nil, nil, nil
}

// An Adam step of 10 million parameters.
func BenchmarkAdam(b *testing.B) {
	tensor := network.Tensor{Name: "weight", Shape: network.Dims{10000, 1000}}
	d := device(b)
	u, err := kernels.NewUpdates(d.Backend, []network.Tensor{tensor}, kernels.DefaultOptimizer("adam"))
	require.NoError(b, err)
	defer u.Close()
	var state kernels.OptimizerState
	parameters := backend.Tensors{upload(b, d, make([]float64, 1e7), false, 10000, 1000)}
	gradients := backend.Tensors{upload(b, d, make([]float64, 1e7), false, 10000, 1000)}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, u.Step(parameters, gradients, &state))
	}
	gradients.Release()
	parameters.Release()
	state.Release()
}
