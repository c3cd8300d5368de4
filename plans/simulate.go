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
type outcome struct {
	Step  time.Duration
	Peak  int64 // of the rank that needs the most memory
	Fits  bool  // with the margin
	Tasks int   // simulated
}

// An engine simulates plans, one after another, in memory that it keeps.
type engine struct {
	packer     wiring.Packer
	packed     sim.Packed
	statistics graph.Statistics
	summary    graph.Summary
}

// simulate runs a plan, and returns what decides about it, or why it is not run.
func (e *engine) simulate(p *Plan, u *stageGroup) (out outcome, pruned string, err error) {
	ready, err := u.sharedPrices()
	if err != nil {
		return out, Impossible, nil
	}
	d := ready.Scheduled(p.space.schedules[p.Schedule], p.divide(p.space))
	pipeline, err := d.Pipeline()
	if err != nil {
		return out, Impossible, nil
	}
	if u.exceedsMemory(pipeline.Order) {
		return out, Activations, nil
	}
	out.Tasks, err = e.simulatePacked(ready, pipeline)
	if errors.Is(err, graph.ErrNotPacked) {
		out.Tasks, err = e.simulateGraph(ready, pipeline)
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

// pack simulates a packed graph, of one replica where that stands for all. It returns how
// many tasks that were.
func (e *engine) simulatePacked(u *sharedPrices, p wiring.Pipeline) (tasks int, err error) {
	for _, folded := range []bool{true, false} {
		packed, err := e.packer.Pack(p, folded)
		if err == nil {
			err = u.price(packed.Graph, folded, len(p.Tied), func(costs graph.Costs) error {
				copies := packed.Copies
				packed.Copies = 1 // of which no others are compared, as they were
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

// alone simulates what cannot be packed, and does what pack does.
func (e *engine) simulateGraph(u *sharedPrices, p wiring.Pipeline) (tasks int, err error) {
	for _, p.Alone = range []bool{true, false} {
		g, err := p.Graph()
		if err != nil {
			return 0, errImpossible
		}
		err = u.price(g, p.Alone, len(p.Tied), func(costs graph.Costs) error {
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
