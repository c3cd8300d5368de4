package plans

import (
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel"
	"psim/schedules/graph"
	"psim/sim"
)

// An Outcome is what a simulation says of a plan.
type Outcome struct {
	Step  time.Duration
	Peak  int64 // of the rank that needs the most memory
	Fits  bool  // with the margin
	Tasks int   // simulated
}

// simulate runs a plan, and returns what decides about it.
func (p *Plan) simulate(u *unit) (out Outcome, pruned string, err error) {
	d, err := p.space.shared.Divide(p.divide(p.space))
	if err != nil {
		return out, Impossible, nil
	}
	pipeline, err := d.Pipeline()
	if err != nil {
		return out, Impossible, nil
	}
	if u.tooMuch(pipeline.Order) {
		return out, Activations, nil
	}
	pipeline.Alone = alike(d)
	g, err := pipeline.Graph()
	if err != nil {
		return out, Impossible, nil
	}
	costs, err := costmodel.StepCosts(d.Machine, d.Workload, g)
	if err != nil {
		return out, Impossible, nil
	}
	t, err := sim.Run(made(g, pipeline.Alone), costs)
	if err != nil {
		return out, "", err
	}
	summary := graph.Summarize(t)
	out = Outcome{Step: summary.StepTime, Tasks: len(g.Tasks)}
	peaks := make([]int64, p.Stages*p.Data)
	for r := range peaks {
		peaks[r] = summary.Ranks[r%len(summary.Ranks)].PeakMemory
	}
	out.Peak, out.Fits = slices.Max(peaks), fits(d, peaks)
	return out, "", nil
}

// alike reports whether all replicas do the same at the same time, so that one stands for
// all: none has messages, or each has nodes of its own, or links that it does not share.
func alike(d *configs.Division) bool {
	m, devices := &d.Machine, d.Shape.Ranks*max(1, d.Machine.Tensor)
	switch {
	case d.Workload.Shards != nil || m.Host.Threads == "node":
		return false
	case d.Shape.Ranks == 1:
		return true
	case m.DevicesPerNode == 0:
		return m.Link.Shared != "node"
	}
	return devices%m.DevicesPerNode == 0
}

// made returns a graph that says of itself what it has: of one replica alone, groups of
// its own ranks.
func made(g *graph.Graph, alone bool) *graph.Graph {
	if !alone {
		return g
	}
	one := *g
	one.Shape.Replicas, one.Groups = 1, make([][]int32, len(g.Groups))
	for i, group := range g.Groups {
		for _, r := range group {
			if int(r) < g.Shape.Ranks {
				one.Groups[i] = append(one.Groups[i], r)
			}
		}
	}
	return &one
}

// fits compares the peaks of all ranks with what they and their nodes have.
func fits(d *configs.Division, peaks []int64) bool {
	m, nodes := &d.Machine, map[int32]int64{}
	for r, peak := range peaks {
		if most := m.RankMemory(); most > 0 && peak > most {
			return false
		}
		nodes[m.Node(int32(r))] += peak * int64(max(1, m.Tensor))
	}
	for _, sum := range nodes {
		if most := float64(m.MemoryPerNode) * (1 - m.Device.Margin); most > 0 && sum > int64(most) {
			return false
		}
	}
	return true
}
