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

// outcome is the result of a plan's simulation.
type outcome struct {
	Step  time.Duration
	Peak  int64 // bytes of the fullest rank
	Fits  bool  // with the margin
	Tasks int   // number of simulated tasks
}

// An engine simulates one plan after another, and reuses its memory.
type engine struct {
	packer     wiring.Packer
	packed     sim.Packed
	statistics graph.Statistics
	summary    graph.Summary
}

// simulate simulates a plan, and returns its outcome, or why it was not simulated.
func (e *engine) simulate(p *Plan, g *stageGroup) (out outcome, pruned string, err error) {
	prices, err := g.sharedPrices()
	if err != nil {
		return out, Impossible, nil
	}
	d := prices.Scheduled(p.space.schedules[p.Schedule], p.divide(p.space))
	pipeline, err := d.Pipeline()
	if err != nil {
		return out, Impossible, nil
	}
	if g.exceedsMemory(pipeline.Order) {
		return out, Activations, nil
	}
	out.Tasks, err = e.simulatePacked(prices, pipeline)
	if errors.Is(err, graph.ErrNotPacked) {
		out.Tasks, err = e.simulateGraph(prices, pipeline)
	}
	if errors.Is(err, errImpossible) {
		return outcome{}, Impossible, nil
	}
	if err != nil {
		return out, "", err
	}
	memory.ReservePeaks(d.Workload, &e.summary)
	peaks := make([]int64, p.Stages*p.Data)
	for r := range peaks {
		peaks[r] = e.summary.Ranks[r%len(e.summary.Ranks)].PeakMemory
	}
	out.Step, out.Peak, out.Fits = e.summary.StepTime, slices.Max(peaks), fits(d, peaks)
	return out, "", nil
}

// errImpossible says that a plan cannot be built.
var errImpossible = errors.New(Impossible)

// simulatePacked simulates a pipeline as a packed graph, of one replica if that stands for
// all. It returns the number of simulated tasks.
func (e *engine) simulatePacked(prices *sharedPrices, p wiring.Pipeline) (tasks int, err error) {
	for _, folded := range []bool{true, false} {
		packed, err := e.packer.Pack(p, folded)
		if err == nil {
			err = prices.price(packed.Graph, folded, len(p.Tied), func(costs graph.Costs) error {
				copies := packed.Copies
				packed.Copies = 1 // skip the comparison of replicas, which price has made
				defer func() { packed.Copies = copies }()
				return packed.Price(costs)
			})
		} else if !errors.Is(err, graph.ErrNotPacked) && !errors.Is(err, graph.ErrNotAlike) {
			return 0, errImpossible
		}
		if errors.Is(err, graph.ErrNotAlike) {
			continue
		}
		if err == nil {
			err = e.packed.Run(packed)
		}
		if err != nil {
			return 0, err
		}
		e.statistics.Extremes(packed, &e.summary)
		return len(packed.Tasks), nil
	}
	return 0, graph.ErrNotPacked
}

// simulateGraph does the same for a pipeline that cannot be packed.
func (e *engine) simulateGraph(prices *sharedPrices, p wiring.Pipeline) (tasks int, err error) {
	for _, p.Alone = range []bool{true, false} {
		g, err := p.Graph()
		if err != nil {
			return 0, errImpossible
		}
		err = prices.price(g, p.Alone, len(p.Tied), func(costs graph.Costs) error {
			one := g
			if p.Alone {
				one = g.Alone()
			}
			t, err := sim.Run(one, costs)
			if err == nil {
				e.summary = graph.Summarize(t)
			}
			return err
		})
		if !errors.Is(err, graph.ErrNotAlike) {
			return len(g.Tasks), err
		}
	}
	return 0, graph.ErrNotAlike
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
