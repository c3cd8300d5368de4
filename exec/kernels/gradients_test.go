package kernels_test

import (
	"math/rand/v2"
	"testing"

	"psim/costmodel/training"
	"psim/exec/kernels"

	"github.com/stretchr/testify/require"
)

// Gradients of every parameter against finite differences of the loss, in
// float64.
func TestGradientsAgainstDifferences(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			p := newPipe(t, device(t), n, kernels.Options{Samples: 2}.Double())
			defer p.close()
			b := makeData(n, 2)
			p.shake(t)
			_, gradients := p.step(t, b)
			for i, tensor := range p.stages[0].Parameters() {
				for _, k := range someOf(len(gradients[tensor.Name]), 6) {
					slope := p.difference(t, b, i, k)
					require.InDelta(t, slope, gradients[tensor.Name][k], 1e-7+1e-5*max(slope, -slope), "%s[%d]",
						tensor.Name, k)
				}
			}
		})
	}
}

// shake moves all parameters away from zeros and ones.
func (p *pipe) shake(t testing.TB) {
	source := rand.New(rand.NewPCG(3, 3))
	for _, list := range p.params {
		for i, x := range list {
			values := read(t, x)
			for k := range values {
				values[k] += 0.2 * source.NormFloat64()
			}
			list[i] = upload(t, p.device, values, p.options.IsDouble(), x.Dimensions()...)
			x.Release()
		}
	}
}

// difference returns the slope of the mean loss along one number of a parameter.
func (p *pipe) difference(t testing.TB, b data, parameter, k int) float64 {
	const h = 1e-6
	old := p.params[0][parameter]
	values := read(t, old)
	middle := values[k]
	var losses [2]float64
	for side, x := range []float64{middle - h, middle + h} {
		values[k] = x
		p.params[0][parameter] = upload(t, p.device, values, true, old.Dimensions()...)
		loss, saved := p.forward(t, b, 0)
		saved[0].Release()
		p.params[0][parameter].Release()
		losses[side] = loss / float64(len(b.targets))
	}
	p.params[0][parameter] = old
	return (losses[1] - losses[0]) / (2 * h)
}

func someOf(n, count int) []int {
	if n <= count {
		count = n
	}
	return rand.New(rand.NewPCG(5, uint64(n))).Perm(n)[:count]
}

// Every way of running a network gives the loss and gradients of the whole network on the whole
// batch: in stages, in microbatches (of unequal size in TestUnequalMicrobatches), with halved
// backwards, and with recomputation.
func TestAllWaysAgree(t *testing.T) {
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			d, b := device(t), makeData(n, 4)
			whole := newPipe(t, d, n, kernels.Options{Samples: 4})
			defer whole.close()
			loss, gradients := whole.step(t, b)
			for _, cuts := range [][]int{{}, {1}, {len(n.Layers) - 1}, {1, 2}} {
				for _, samples := range []int{1, 2, 4} {
					if testing.Short() && (samples == 4 || len(cuts) == 1) {
						continue
					}
					for _, recompute := range []kernels.Recompute{
						kernels.SaveAll, kernels.RepeatLayer, kernels.RepeatStage,
					} {
						p := newPipe(t, d, n, kernels.Options{Samples: samples, Recompute: recompute}, cuts...)
						for _, p.halves = range []bool{false, true} {
							got, all := p.step(t, b)
							require.InDelta(t, loss, got, 1e-5, "%v %d %v %v", cuts, samples, recompute, p.halves)
							near(t, gradients, all, 1e-5)
						}
						p.close()
					}
				}
			}
		})
	}
}

// I and W together equal B, and recomputation changes nothing, to the bit.
func TestHalvesAndRecomputationBitwise(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			d, b := device(t), makeData(n, 2)
			var want map[string][]float64
			for _, recompute := range []kernels.Recompute{kernels.SaveAll, kernels.RepeatLayer, kernels.RepeatStage} {
				p := newPipe(t, d, n, kernels.Options{Samples: 2, Recompute: recompute}, 1)
				for _, p.halves = range []bool{false, true} {
					_, all := p.step(t, b)
					if want == nil {
						want = all
					}
					require.Equal(t, want, all)
				}
				p.close()
			}
		})
	}
}

// Two programs, one for the parameters and one for the input, compute what one program
// computes, to the bit, and free the same tensors. A layer without parameters has nothing to
// compute in the first. The network's own input has a gradient if its layers are asked for one.
func TestTwoPassBitwise(t *testing.T) {
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			d, b := device(t), makeData(n, 2)
			cuts := []int{1}
			whole := newPipe(t, d, n, kernels.Options{Samples: 2}, cuts...)
			defer whole.close()
			twice := newPipe(t, d, n, kernels.Options{Samples: 2, TwoPass: true}, cuts...)
			defer twice.close()
			before := d.Bytes()
			_, want := whole.step(t, b)
			_, got := twice.step(t, b)
			require.Equal(t, want, got)
			require.Equal(t, before, d.Bytes())
			require.Equal(t, []int{1, 1}, []int{whole.stages[0].GradientCalls(), whole.stages[1].GradientCalls()})
			require.Equal(t, []int{1, 2}, []int{twice.stages[0].GradientCalls(), twice.stages[1].GradientCalls()},
				"the first has no input gradient")
		})
	}
	asked := training.Options{Backward: training.BackwardTwoPass}.Trained(tinyMLP(t))
	s, err := kernels.Compile(device(t).Backend, asked.Layers[:1], kernels.Options{Samples: 2, TwoPass: true})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, 2, s.GradientCalls())
}
