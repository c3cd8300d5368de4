package kernels

import (
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/exec/backend"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"
)

// A kernel is what BenchmarkKernels runs forward and backward.
type kernel struct {
	name    string
	samples int
	layers  []network.Layer // of a network, or
	input   []int           // rows or images for
	modules chain           // with
	params  []network.Tensor
	adam    bool // an optimizer's step follows
	form    form
}

// BenchmarkKernels runs the kernels of tools/pytorch, by the same names. It reports the CPU
// time of a forward and a backward, in programs of their own, on one core of the backend that PSIM_BACKEND
// names as --backend does. With -short it only checks that they run.
func BenchmarkKernels(b *testing.B) {
	for _, k := range kernels(b, testing.Short()) {
		b.Run(k.name, k.benchmark)
	}
}

func kernels(b *testing.B, small bool) []kernel {
	tokens, words, samples, rows := 128, 0, 8, 1024
	if small {
		tokens, words, samples, rows = 4, 50, 1, 8
	}
	layers := func(m models.Model) []network.Layer {
		n, err := m.Network()
		require.NoError(b, err)
		return n.Layers
	}
	gpt := layers(models.Model{Preset: "gpt2", SequenceLength: tokens, Vocab: words})
	head := gpt[len(gpt)-1]
	classes := int(head.Output[len(head.Output)-1])
	norm := []network.Tensor{{Name: "norm.weight", Shape: network.Dims{768}},
		{Name: "norm.bias", Shape: network.Dims{768}}}
	list := []kernel{
		{name: "block", samples: samples, layers: gpt[1:2]},
		{name: "head", samples: (samples + 1) / 2, layers: gpt[len(gpt)-1:]},
		{name: "embedding", samples: samples, layers: gpt[:1]},
		{name: "attention", input: []int{samples * tokens, 3 * 768},
			modules: chain{attention{samples: samples, heads: 12, sequence: tokens, width: 64}}},
		{name: "norm", input: []int{rows, 768}, modules: chain{layerNorm{name: "norm", key: "norm"}}, params: norm},
		{name: "GELU", input: []int{rows, 3072}, modules: chain{gelu{"gelu", "output"}, saving{"output"}}},
		{name: "entropy", input: []int{rows / 2, classes}, modules: chain{crossEntropy{"loss.targets"}}},
		{name: "vgg", samples: (samples + 1) / 2 * 4, layers: layers(models.Model{Preset: "vgg16-pipeline"})[:5]},
		{name: "step", samples: samples, adam: true,
			layers: layers(models.Model{Family: "gpt", Layers: 4, Hidden: 256, Heads: 4, Vocab: 1000,
				SequenceLength: 64})},
		{name: "Adam", input: []int{1, 1},
			params: []network.Tensor{{Name: "weight", Shape: network.Dims{rows * 10, 1000}}}, adam: true},
	}
	for _, c := range []struct {
		name           string
		size, channels int
	}{{"conv56", 56, 64}, {"conv28", 28, 128}, {"conv14", 14, 256}, {"conv7", 7, 512}} {
		n, channels := 4, c.channels
		if small {
			n, channels = 1, 2
		}
		list = append(list, kernel{
			name: c.name, input: []int{n, c.size, c.size, channels}, modules: chain{convolution{name: "conv"}},
			params: []network.Tensor{
				{Name: "conv.weight", Shape: network.Dims{channels, channels, 3, 3}},
				{Name: "conv.bias", Shape: network.Dims{channels}},
			},
		})
	}
	return list
}

// saving saves its input as the linear layer behind it would.
type saving struct{ name string }

func (m saving) forward(s *scope, x *graph.Node) *graph.Node {
	s.save(m.name, network.ForwardToWeight, x)
	return x
}

func (saving) input(_ *scope, dy *graph.Node) *graph.Node { return dy }

// stage compiles the kernel's programs.
func (k kernel) stage(b *testing.B, d *backend.LocalDevice) *Programs {
	s := &Programs{options: Options{Samples: k.samples}, dtype: dtypes.Float32, index: map[string]int{},
		slots: map[string]slot{}, names: map[string]string{}, masks: map[string]mask{}}
	for _, l := range k.layers {
		made, err := newLayer(l, k.samples)
		require.NoError(b, err)
		s.layers = append(s.layers, made)
	}
	if k.layers == nil {
		s.layers = []layer{{network.Layer{Name: "kernel", Params: k.params}, k.modules}}
	}
	for i, l := range s.layers {
		s.layers[i].chain = k.form.swap(l.chain)
		s.addParameters(l.Layer)
	}
	if s.inputShape = shapes.Make(s.dtype, k.input...); k.layers != nil {
		s.inputShape = s.shapeOfInput()
	}
	s.group()
	require.NoError(b, s.compile(d.Backend))
	return s
}

func (k kernel) benchmark(b *testing.B) {
	opened, err := backend.Open(1, backend.Options{Backend: os.Getenv("PSIM_BACKEND"), CoresPerWorker: 1})
	require.NoError(b, err)
	d := opened[0]
	defer d.Close()
	s := k.stage(b, d)
	defer s.Close()
	r := kernelRun{kernel: k, B: b, stage: s, device: d}
	r.parameters, err = s.Initialize(d, 1)
	require.NoError(b, err)
	r.sums, err = Zeros(d, s.parameters)
	require.NoError(b, err)
	if k.adam {
		r.updates, err = NewUpdates(d.Backend, s.parameters, DefaultOptimizer("adam"))
		require.NoError(b, err)
		defer r.updates.Close()
	}
	r.prepare()
	r.once() // makes room
	used := processTime()
	for b.Loop() {
		r.once()
	}
	b.ReportMetric(float64(processTime()-used)/1e6/float64(b.N), "cpu-ms/op")
	for _, list := range []backend.Tensors{r.parameters, r.sums, {r.x, r.y, r.dy}} {
		list.Release()
	}
	r.state.Release()
}

// A kernelRun is a kernel with the inputs of its passes.
type kernelRun struct {
	kernel
	*testing.B
	stage            *Programs
	device           *backend.LocalDevice
	x, y, dy         *backend.DeviceTensor
	parameters, sums backend.Tensors
	updates          *Updates
	state            OptimizerState
}

// prepare makes inputs and gradients from a fixed seed.
func (r *kernelRun) prepare() {
	source := rand.New(rand.NewPCG(1, 2))
	normal := func(shape shapes.Shape, scale float64) *backend.DeviceTensor {
		values := make([]float32, shape.Size())
		for i := range values {
			values[i] = float32(scale * source.NormFloat64())
		}
		return r.upload(backend.Upload(r.device, values, shape.Dimensions...))
	}
	ints := func(n, below int) *backend.DeviceTensor {
		values := make([]int32, n)
		for i := range values {
			values[i] = source.Int32N(int32(below))
		}
		return r.upload(backend.Upload(r.device, values, n))
	}
	if r.stage.inputShape.DType.IsFloat() {
		r.x = normal(r.stage.inputShape, 1)
	} else {
		r.x = ints(r.stage.inputShape.Size(), r.stage.parameters[0].Shape[0])
	}
	switch out := r.stage.outputShape; {
	case out.Size() == 1 && r.layers != nil:
		last := r.layers[len(r.layers)-1].Output
		r.y = ints(r.stage.Targets(), last[len(last)-1])
	case out.Size() == 1:
		r.y = ints(r.input[0], r.input[1])
	}
	r.dy = normal(r.stage.outputShape, 0.001)
}

func (r *kernelRun) upload(t *backend.DeviceTensor, err error) *backend.DeviceTensor {
	require.NoError(r, err)
	return t
}

func (r *kernelRun) once() {
	if r.modules != nil || r.layers != nil {
		out, saved, err := r.stage.Forward(r.parameters, r.x, r.y, MaskSeed{})
		require.NoError(r, err)
		dx, err := r.stage.Backward(r.parameters, saved, r.dy, r.sums)
		require.NoError(r, err)
		backend.Tensors{out, dx}.Release()
	}
	if r.updates != nil {
		require.NoError(r, r.updates.Step(r.parameters, r.sums, &r.state))
	}
}

// processTime returns the CPU time that this process has used.
func processTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
