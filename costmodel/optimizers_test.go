package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/models"
	"psim/costmodel/training"
	"psim/internal/units"
	"psim/schedules/graph"
)

// Bytes of an update for a parameter in bf16, with its fp32 weight: gradients are converted (2 + 4) and read (4), the
// weight is read and written (4 + 4) and once more converted (4 + 2), which with the states makes
//
//	lion       24 + 2·4
//	adafactor  24 + 2·4 for two more reads of the gradient, + states of rows and columns
//	adamw-8bit 24 + 2·(2 + 8/256), or 2·8 for tensors below 4,096
//
// and without an fp32 weight 2 + 2 + 2 for gradient and weight. In many kernels adamw moves the weight twice more, the
// moments ten times more in all and the gradient once more.
func TestOptimizerBytes(t *testing.T) {
	const matrix, bias = 64 * 64, 64
	for _, e := range []struct {
		optimizer, masters, kernels string
		bytes                       int64
	}{
		{training.OptimizerLion, "", "", (24 + 2*4) * (matrix + bias)},
		{training.OptimizerAdafactor, "", "", (24+2*4)*(matrix+bias) + 2*4*(64+64+bias)},
		{training.OptimizerAdamW8Bit, "", "", 24*(matrix+bias) + 2*2*(matrix+4*matrix/256) + 2*8*bias},
		{training.OptimizerAdamW8Bit, training.MastersNone, "", 6*(matrix+bias) + 2*2*(matrix+4*matrix/256) + 2*8*bias},
		{"adamw", training.MastersNone, "", (6 + 2*8) * (matrix + bias)},
		{"adamw", training.MastersNone, training.UpdateForeach, (6 + 2*8 + 2*2 + 10*4 + 2) * (matrix + bias)},
		{"adamw", "", training.UpdateForeach, (24 + 2*8 + 2*4 + 10*4 + 4) * (matrix + bias)},
	} {
		w := workload(t, mlp(t, 2, 64), []int32{0, 1}, 1)
		w.Training.Precision, w.Training.Optimizer, w.Training.MasterWeights = "bf16", e.optimizer, e.masters
		w.Training.UpdateKernels = e.kernels
		require.NoError(t, w.Training.Validate())
		c, err := costmodel.NewCompute(device(), w.Training)
		require.NoError(t, err)
		costs := costsOf(t, w, machine(), graphOf(t, w, orderOf(t, "gpipe", w)))
		require.Equal(t, c.Move(e.bytes), costs.Task(&graph.Task{Kind: graph.Optimizer, Rank: 1}).Busy, "%+v", e)
	}
}

// Pages of states come from the host and go back at the same time, while the update runs: the longer counts.
func TestPagedUpdate(t *testing.T) {
	w := workload(t, mlp(t, 2, 64), []int32{0, 1}, 1)
	w.Training.Optimizer = training.OptimizerPaged8Bit
	m := machine()
	update := func() time.Duration {
		return costsOf(t, w, m, graphOf(t, w, orderOf(t, "gpipe", w))).Task(&graph.Task{Kind: graph.Optimizer, Rank: 1}).Busy
	}
	alone := update()
	states := int64(2*(64*64+4*64*64/256) + 8*64)
	m.HostLink = link.Link{Name: "host", Bandwidth: 1e9}
	require.Equal(t, m.HostLink.Transfer(states), update())
	m.HostLink.Bandwidth = 1e15
	require.Equal(t, alone, update())
}

// Muon adds the products of Newton–Schulz for the matrices of blocks, which ZeRO divides among replicas.
func TestMuonUpdate(t *testing.T) {
	n := build(t, models.Model{Family: "gpt", Layers: 1, Hidden: 64, Heads: 2, Vocab: 512, SequenceLength: 16})
	var flops float64
	var products int
	for _, p := range n.Layers[1].Params {
		if len(p.Shape) == 2 {
			m, w := float64(min(p.Shape[0], p.Shape[1])), float64(max(p.Shape[0], p.Shape[1]))
			flops, products = flops+5*(4*m*m*w+2*m*m*m), products+15
		}
	}
	require.Equal(t, 60, products)
	update := func(optimizer string, zero int) time.Duration {
		w := workload(t, n, []int32{0}, 1)
		w.Training.Precision, w.Training.Optimizer, w.Zero, w.Replicas = "bf16", optimizer, zero, 4
		w = synced(w, 0, false)
		return costsOf(t, w, machine(), graphOf(t, w, orderOf(t, "ddp", w))).Task(&graph.Task{Kind: graph.Optimizer}).Busy
	}
	matrices := n.Layers[1].Parameters()
	for _, p := range n.Layers[1].Params {
		if len(p.Shape) < 2 {
			matrices -= p.Shape.Elements()
		}
	}
	c, err := costmodel.NewCompute(device(), training.Options{Precision: "bf16"})
	require.NoError(t, err)
	ns := units.Seconds(flops/2e12 + float64(products)*1e-6)
	moments := c.Move(2*4*matrices) - time.Duration(device().Launch)
	require.InDelta(t, update("adamw", 0)+ns-moments, update(training.OptimizerMuon, 0), 3)
	require.InDelta(t, update("adamw", 1)+(ns-moments)/4, update(training.OptimizerMuon, 1), 3)
}
