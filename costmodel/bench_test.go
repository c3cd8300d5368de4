package costmodel_test

import (
	"testing"

	"psim/schedules"
)

// BenchmarkTask prices the tasks of GPT-2 over two replicas of four ranks.
func BenchmarkTask(b *testing.B) {
	w := workload(b, gpt2(b), []int32{0, 1, 2, 3}, 4, 4, 4, 4, 4, 4, 4, 4)
	w.Replicas = 2
	g := graph(b, w, order(b, "1f1b", w), w.Sync(0, true))
	costs, err := w.Costs(machine(), g)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		costs.Task(&g.Tasks[i])
		if i++; i == len(g.Tasks) {
			i = 0
		}
	}
}

// BenchmarkCosts prepares the prices of such a graph.
func BenchmarkCosts(b *testing.B) {
	w := workload(b, gpt2(b), []int32{0, 1, 2, 3}, 4, 4, 4, 4)
	g := graph(b, w, order(b, "1f1b", w), schedules.Sync{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Costs(machine(), g); err != nil {
			b.Fatal(err)
		}
	}
}
