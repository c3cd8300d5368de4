package kernels_test

import (
	"math"
	"testing"

	"psim/costmodel/network"
	"psim/exec/backend"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
)

// Two steps of every optimizer equal PyTorch's formulas, computed by hand.
func TestOptimizers(t *testing.T) {
	for _, name := range []string{"sgd", "sgd-momentum", "adam", "adamw"} {
		for _, decay := range []float64{0, 0.1} {
			d := device(t)
			o := kernels.DefaultOptimizer(name)
			o.LearningRate, o.WeightDecay = 0.3, decay
			tensors := []network.Tensor{{Name: "a", Shape: network.Dims{2, 1}}, {Name: "b", Shape: network.Dims{1}}}
			u, err := kernels.NewDoubleUpdates(d.Backend, tensors, o)
			require.NoError(t, err)
			want := []float64{1, -2, 3}
			var memory [3][2]float64
			parameters := backend.Tensors{upload(t, d, want[:2], true, 2, 1), upload(t, d, want[2:], true, 1)}
			var state kernels.OptimizerState
			for step := 1; step <= 2; step++ {
				g := []float64{0.5, -1 * float64(step), 1e-3}
				gradients := backend.Tensors{upload(t, d, g[:2], true, 2, 1), upload(t, d, g[2:], true, 1)}
				require.NoError(t, u.Step(parameters, gradients, &state))
				gradients.Release()
				for i := range want {
					want[i] = byHand(o, want[i], g[i], step, &memory[i])
				}
				require.InDeltaSlice(t, want, append(read(t, parameters[0]), read(t, parameters[1])...), 1e-12,
					"%s step %d", name, step)
			}
			require.EqualValues(t, map[string]int{"sgd": 0, "sgd-momentum": 3 * 8}[name]+
				map[bool]int{true: 2 * 3 * 8}[name[0] == 'a'], state.Bytes())
			parameters.Release()
			state.Release()
			u.Close()
		}
	}
}

// byHand does one step for one number, with what the optimizer remembers of it.
func byHand(o kernels.Optimizer, p, g float64, step int, memory *[2]float64) float64 {
	if o.Name == "adamw" {
		p -= o.LearningRate * o.WeightDecay * p
	} else {
		g += o.WeightDecay * p
	}
	switch o.Name {
	case "sgd":
		return p - o.LearningRate*g
	case "sgd-momentum":
		memory[0] = o.Momentum*memory[0] + g
		return p - o.LearningRate*memory[0]
	}
	memory[0] = o.Beta1*memory[0] + (1-o.Beta1)*g
	memory[1] = o.Beta2*memory[1] + (1-o.Beta2)*g*g
	m := memory[0] / (1 - math.Pow(o.Beta1, float64(step)))
	v := memory[1] / (1 - math.Pow(o.Beta2, float64(step)))
	return p - o.LearningRate*m/(math.Sqrt(v)+o.Epsilon)
}

func TestOptimizerErrors(t *testing.T) {
	for want, change := range map[string]func(*kernels.Optimizer){
		"must be one of sgd": func(o *kernels.Optimizer) { o.Name = "lion" },
		"learning rate":      func(o *kernels.Optimizer) { o.LearningRate = math.NaN() },
		"weight decay":       func(o *kernels.Optimizer) { o.WeightDecay = -1 },
		"betas":              func(o *kernels.Optimizer) { o.Beta2 = 1 },
		"momentum":           func(o *kernels.Optimizer) { o.Name, o.Momentum = "sgd-momentum", 1 },
	} {
		o := kernels.DefaultOptimizer("adam")
		change(&o)
		require.ErrorContains(t, o.Validate(), want)
	}
}

// The loss falls, with gradients of two microbatches summed on the device, and the tensors
// between steps do not grow.
func TestTraining(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, n := range networks(t) {
		for _, optimizer := range []string{"sgd", "sgd-momentum", "adam", "adamw"} {
			t.Run(name+" "+optimizer, func(t *testing.T) {
				d, b := device(t), makeData(n, 4)
				p := newPipe(t, d, n, kernels.Options{Samples: 2})
				defer p.close()
				o := kernels.DefaultOptimizer(optimizer)
				o.LearningRate = 0.01
				u, err := kernels.NewUpdates(d.Backend, p.stages[0].Parameters(), o)
				require.NoError(t, err)
				defer u.Close()
				var state kernels.OptimizerState
				defer state.Release()
				first := p.train(t, b, u, &state)
				live, last := d.Bytes(), 0.0
				for range 5 {
					last = p.train(t, b, u, &state)
				}
				require.Less(t, last, first)
				require.Equal(t, live, d.Bytes())
			})
		}
	}
}

// train runs a step of a pipe with one stage.
func (p *pipe) train(t testing.TB, b data, u *kernels.Updates, state *kernels.OptimizerState) float64 {
	dy := upload(t, p.device, []float64{1 / float64(len(b.targets))}, false)
	defer dy.Release()
	sum := p.zeros(t, 0)
	defer func() { sum.Release() }()
	total := 0.0
	for from := 0; from < b.samples; from += p.options.Samples {
		loss, saved := p.forward(t, b, from)
		p.stageBackward(t, 0, saved[0], dy, sum)
		total += loss
	}
	require.NoError(t, u.Step(p.params[0], sum, state))
	return total / float64(len(b.targets))
}

// An optimizer step works in place: it adds only its scalars to what is held.
func TestStepInPlace(t *testing.T) {
	d := device(t)
	tensors := []network.Tensor{{Name: "a", Shape: network.Dims{100}}}
	u, err := kernels.NewUpdates(d.Backend, tensors, kernels.DefaultOptimizer("adamw"))
	require.NoError(t, err)
	defer u.Close()
	parameters := backend.Tensors{upload(t, d, make([]float64, 100), false, 100)}
	var state kernels.OptimizerState
	for range 2 {
		gradients := backend.Tensors{upload(t, d, make([]float64, 100), false, 100)}
		peak := kernels.Watch(d)
		require.NoError(t, u.Step(parameters, gradients, &state))
		require.EqualValues(t, 4*400+3*4, peak())
		require.Equal(t, make([]float64, 100), read(t, gradients[0]), "ready for the next step")
		gradients.Release()
		require.EqualValues(t, 3*400, d.Bytes())
	}
	parameters.Release()
	state.Release()
}
