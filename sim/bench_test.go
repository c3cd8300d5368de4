package sim_test

import (
	"runtime"
	"testing"
	"time"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// perTask repeats work on a graph and reports its speed and memory per task.
func perTask(b *testing.B, g *graph.Graph, work func()) {
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		work()
	}
	runtime.ReadMemStats(&after)
	tasks := float64(len(g.Tasks)) * float64(b.N)
	b.ReportMetric(tasks/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/tasks, "B/task")
}

func BenchmarkRun(b *testing.B) {
	g := build(b, "1f1b", 64, 1024)
	simulate := func(costs graph.Costs) func(*testing.B) {
		return func(b *testing.B) {
			perTask(b, g, func() {
				if _, err := sim.Run(g, costs); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
	free := uniform(10*time.Millisecond, 20*time.Millisecond, 0)
	b.Run("build", func(b *testing.B) { perTask(b, g, func() { build(b, "1f1b", 64, 1024) }) })
	b.Run("simulate", simulate(free))
	b.Run("simulate links", simulate(graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind.Message() {
			return graph.Cost{Busy: time.Millisecond, Link: 1 + t.Rank/8}
		}
		return free.Task(t)
	}}))
	b.Run("simulate memory", simulate(graph.Costs{Task: func(t *graph.Task) graph.Cost {
		c := free.Task(t)
		switch t.Kind {
		case graph.Forward:
			c.BytesAtStart = 1
		case graph.Backward:
			c.BytesAtEnd = -1
		}
		return c
	}}))
}

func BenchmarkPacked(b *testing.B) {
	p, costs := ordertest.Pipeline(b, "1f1b", 64, 1024), uniform(10*time.Millisecond, 20*time.Millisecond, 0)
	g := build(b, "1f1b", 64, 1024)
	var packer wiring.Packer
	var engine sim.Packed
	var statistics graph.Statistics
	var s graph.Summary
	packed, err := packer.Pack(p, true)
	if err != nil {
		b.Fatal(err)
	}
	run := func() {
		if err := engine.Run(packed); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("build", func(b *testing.B) {
		perTask(b, g, func() {
			packed, err = packer.Pack(p, true)
			if err == nil {
				err = packed.Price(costs)
			}
			if err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("simulate", func(b *testing.B) { perTask(b, g, run) })
	b.Run("summarize", func(b *testing.B) { perTask(b, g, func() { statistics.Summarize(packed, &s) }) })
}
