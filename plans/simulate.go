package plans

import (
	"errors"
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel/memory"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// An Outcome is what a simulation says of a plan.
type Outcome struct {
	Step  time.Duration
	Peak  int64 // of the rank that needs the most memory
	Fits  bool  // with the margin
	Tasks int   // simulated
}

// An engine simulates plans, one after another, in memory that it keeps.
type engine struct {
	builder    wiring.Builder
	engine     sim.Engine
	statistics graph.Statistics
	summary    graph.Summary
}

// simulate runs a plan, and returns what decides about it, or why it is not run.
func (e *engine) simulate(p *Plan, u *unit) (out Outcome, pruned string, err error) {
	ready, err := u.ready()
	if err != nil {
		return out, Impossible, nil
	}
	d := ready.Scheduled(p.space.schedules[p.Schedule], p.divide(p.space))
	pipeline, err := d.Pipeline()
	if err != nil {
		return out, Impossible, nil
	}
	if u.tooMuch(pipeline.Order) {
		return out, Activations, nil
	}
	out.Tasks, err = e.run(ready, pipeline)
	if errors.Is(err, errImpossible) {
		return Outcome{}, Impossible, nil
	}
	if err != nil {
		return out, "", err
	}
	peaks := make([]int64, p.Stages*p.Data)
	for r := range peaks {
		peaks[r] = e.summary.Ranks[r%len(e.summary.Ranks)].PeakMemory
	}
	out.Step, out.Peak, out.Fits = e.summary.StepTime, slices.Max(peaks), fits(d, peaks)
	return out, "", nil
}

// errImpossible says that a plan cannot be built.
var errImpossible = errors.New(Impossible)

// run simulates the graph of a pipeline, or of its first replica where that stands for all. It
// returns how many tasks that were.
func (e *engine) run(u *ready, p wiring.Pipeline) (tasks int, err error) {
	p.Brief, e.engine.NoCauses = true, true
	for _, p.Folded = range []bool{p.Foldable(), false} {
		g, err := e.builder.Graph(p)
		if err != nil {
			return 0, errImpossible
		}
		costs, err := u.Costs(g)
		if err != nil {
			return 0, errImpossible
		}
		if p.Folded && !u.same(g, costs) {
			continue
		}
		trace, err := e.engine.Run(g, costs)
		if err != nil {
			return 0, err
		}
		memory.Reserve(u.Workload, trace)
		e.statistics.Extremes(trace, &e.summary)
		return g.Len(), nil
	}
	return 0, errImpossible
}

// fits compares the peaks of all ranks with what they and their nodes have.
func fits(d *configs.Division, peaks []int64) bool {
	m, nodes := &d.Machine, map[int32]int64{}
	if most := m.RankMemory(); most > 0 && slices.Max(peaks) > most {
		return false
	}
	if m.MemoryPerNode == 0 {
		return true
	}
	for r, peak := range peaks {
		for d, n := 0, m.Devices(); d < n; d++ {
			node := m.Node(int32(r))
			if m.DevicesPerNode > 0 {
				node += int32(d / m.DevicesPerNode)
			}
			nodes[node] += peak
		}
	}
	for _, sum := range nodes {
		if sum > int64(float64(m.MemoryPerNode)*(1-m.Device.Margin)) {
			return false
		}
	}
	return true
}
