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
	tasks := float64(g.Len()) * float64(b.N)
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

// BenchmarkBrief does what a search does, in memory that is kept.
func BenchmarkBrief(b *testing.B) {
	p, costs := ordertest.Pipeline(b, "1f1b", 64, 1024), uniform(10*time.Millisecond, 20*time.Millisecond, 0)
	p.Brief = true
	var builder wiring.Builder
	engine := sim.Engine{NoCauses: true}
	var statistics graph.Statistics
	var s graph.Summary
	g, err := builder.Graph(p)
	if err != nil {
		b.Fatal(err)
	}
	trace, err := engine.Run(g, costs)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("simulate", func(b *testing.B) {
		perTask(b, g, func() {
			if trace, err = engine.Run(g, costs); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("summarize", func(b *testing.B) { perTask(b, g, func() { statistics.Summarize(trace, &s) }) })
	b.Run("build", func(b *testing.B) {
		perTask(b, g, func() {
			if g, err = builder.Graph(p); err != nil {
				b.Fatal(err)
			}
		})
	})
}
