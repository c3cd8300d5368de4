package costmodel_test

import (
	"testing"

	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/training"
)

// BenchmarkTask prices the classes of tasks of GPT-2 over two replicas of four ranks.
func BenchmarkTask(b *testing.B) {
	w := workload(b, gpt2(b), []int32{0, 1, 2, 3}, 4, 4, 4, 4, 4, 4, 4, 4)
	w.Replicas = 2
	w = synced(w, 0, true)
	g := graphOf(b, w, orderOf(b, "1f1b", w))
	costs, err := costmodel.StepCosts(machine(), w.Staged(), g)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		costs.Task(&g.Classes[i])
		if i++; i == len(g.Classes) {
			i = 0
		}
	}
}

// BenchmarkCosts prepares the prices of such a graph.
func BenchmarkCosts(b *testing.B) {
	w := workload(b, gpt2(b), []int32{0, 1, 2, 3}, 4, 4, 4, 4)
	g := graphOf(b, w, orderOf(b, "1f1b", w))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := costmodel.StepCosts(machine(), w.Staged(), g); err != nil {
			b.Fatal(err)
		}
	}
}

// Pricing a layer that was measured: its signature and two points.
func BenchmarkMeasuredLayer(b *testing.B) {
	l := gpt2(b).Layers[1]
	list := []costmodel.Measured{{Layer: l.Signature(), Samples: 1, Forward: 1000}, {Layer: l.Signature(), Samples: 4, Forward: 3000}}
	c := measuredOn(b, list, training.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if c.Layer(l, network.Forward, 2) == 0 {
			b.Fatal("no time")
		}
	}
}
