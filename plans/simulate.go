package plans

import (
	"errors"
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel/memory"
	"psim/internal/ram"
	"psim/internal/units"
	"psim/schedules/graph"
	"psim/schedules/wiring"
	"psim/sim"
)

// outcome is the result of a plan's simulation.
type outcome struct {
	Step  time.Duration
	Peak  int64 // bytes of the fullest rank
	Fits  bool  // with the margin
	Tasks int   // number of simulated tasks
	Late  bool  // the step is longer than was of interest; nothing else is known of it
}

// An engine simulates one plan after another, and reuses its memory.
type engine struct {
	builder    wiring.Builder
	engine     sim.Engine
	statistics graph.Statistics
	summary    graph.Summary
	outline    outline
}

// simulate simulates a plan, and returns its outcome, or why it was not simulated. It ends early if the step is
// longer than a horizon.
func (e *engine) simulate(p *Plan, g *stageGroup, horizon time.Duration) (out outcome, pruned string, err error) {
	prices, pipeline, d, pruned := e.prepare(p, g)
	if pruned != "" {
		return out, pruned, nil
	}
	kind := p.space.orderKinds[p.Schedule]
	e.engine.Horizon.At, e.engine.Horizon.After = horizon, prices.tails.of(kind)
	e.engine.Horizon.Wait = prices.waits(kind, &pipeline)
	out.Tasks, err = e.run(prices, pipeline)
	switch {
	case errors.Is(err, sim.ErrLate):
		return outcome{Tasks: out.Tasks, Late: true}, "", nil
	case errors.Is(err, errImpossible):
		return outcome{}, Impossible, nil
	case errors.As(err, new(ram.TooLarge)):
		return outcome{}, TooLarge, nil
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

// prepare makes the order of a plan, or says why the plan is not simulated.
func (e *engine) prepare(
	p *Plan, g *stageGroup,
) (prices *sharedPrices, pipeline wiring.Pipeline, d *configs.Division, pruned string) {
	if g.misfits(p) {
		return nil, pipeline, nil, Activations
	}
	prices, err := g.sharedPrices()
	if err != nil {
		return nil, pipeline, nil, Impossible
	}
	d = prices.Scheduled(p.space.schedules[p.Schedule], p.divide(p.space))
	if pipeline, err = d.Pipeline(); err != nil {
		return nil, pipeline, nil, Impossible
	}
	return prices, pipeline, d, ""
}

// misfits reports whether the order of a plan exceeds the memory. That needs no prices.
func (g *stageGroup) misfits(p *Plan) bool {
	cut, err := g.plan.cut()
	if err != nil {
		return false
	}
	pipeline, err := cut.Order(p.space.schedules[p.Schedule], p.divide(p.space))
	return err == nil && g.exceedsMemory(pipeline.Order, p.space.orderKinds[p.Schedule] == pairedOrder, false)
}

// outlined bounds a plan by the passes of its order, or says why the plan is not to be simulated. The bound is 0 where
// only a simulation knows whether the plan is possible. It is forever if the plan is possible and does not fit.
func (e *engine) outlined(p *Plan, g *stageGroup) (bound time.Duration, pruned string) {
	prices, pipeline, _, pruned := e.prepare(p, g)
	if pruned != "" {
		return 0, pruned
	}
	bound = e.outline.run(&pipeline, prices, p.space.orderKinds[p.Schedule])
	if bound == 0 || max(bound, g.bounds[p.space.orderKinds[p.Schedule]]) >= units.Longest {
		return 0, ""
	}
	pipeline.Brief = true
	for _, pipeline.Folded = range []bool{pipeline.Foldable(), false} {
		if e.builder.Check(pipeline) != nil {
			return 0, ""
		}
	}
	if g.exceedsMemory(pipeline.Order, p.space.orderKinds[p.Schedule] == pairedOrder, true) {
		return forever, ""
	}
	return bound, ""
}

// errImpossible says that a plan cannot be built.
var errImpossible = errors.New(Impossible)

// run simulates the graph of a pipeline, or of its first replica if that stands for all. It
// returns the number of simulated tasks.
func (e *engine) run(prices *sharedPrices, p wiring.Pipeline) (tasks int, err error) {
	p.Brief, e.engine.NoCauses = true, true
	for _, p.Folded = range []bool{p.Foldable(), false} {
		g, err := e.builder.Graph(p)
		if errors.As(err, new(ram.TooLarge)) {
			return 0, err
		}
		if err != nil {
			return 0, errImpossible
		}
		costs, err := prices.Costs(g)
		if err != nil {
			return 0, errImpossible
		}
		if p.Folded && !prices.replicasAlike(g, costs) {
			continue
		}
		trace, err := e.engine.Run(g, costs)
		if err != nil {
			return 0, err
		}
		if at := e.engine.Horizon.At; at > 0 && trace.End() > at {
			return g.Len(), sim.ErrLate
		}
		memory.Reserve(prices.Workload, trace)
		e.statistics.Extremes(trace, &e.summary)
		return g.Len(), nil
	}
	return 0, errImpossible
}

// fits reports whether the peaks of all ranks fit in their memory and in that of their
// nodes.
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
