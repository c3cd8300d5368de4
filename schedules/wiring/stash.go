package wiring

import (
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// checkStashing reports what cannot be updated stage by stage.
func (p *Pipeline) checkStashing() error {
	if !p.Stashing {
		return nil
	}
	for _, t := range p.Tied {
		if len(p.tiedRanks(t)) > 1 {
			return fmt.Errorf("name = %q: stages %d and %d hold the same parameter, and would update it apart from each other; set model.tied = false, or schedule.stages = 1",
				p.Name, t.Stages[0], t.Stages[1])
		}
	}
	return OneReplica(p.Shape)
}

// update adds the optimizer's step after an action, where it has its own.
func (w *rankWiring) update(a order.Action) {
	if w.Stashing && w.Optimizer && (a.Kind == graph.Backward || a.Kind == graph.WeightGradient) {
		w.add(graph.Task{Kind: graph.Optimizer, Rank: w.rank, Stream: w.compute, Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None})
	}
}

// OneReplica refuses copies: their updates would have to be summed one by one.
func OneReplica(s graph.Shape) error {
	if s.Replicas > 1 {
		return fmt.Errorf(`name = "pipedream": updates a stage after every microbatch, which is not modelled over replicas; set parallel.data = 1, not %d`, s.Replicas)
	}
	return nil
}
