package schedules

import "fmt"

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
	return oneReplica(p.Shape)
}

// update adds the optimizer's step after an action, where it has its own.
func (w *rankWiring) update(a Action) {
	if w.Stashing && w.Optimizer && (a.Kind == Backward || a.Kind == WeightGradient) {
		w.add(Task{Kind: Optimizer, Rank: w.rank, Stream: w.compute, Stage: a.Stage, Microbatch: a.Microbatch, Peer: None})
	}
}
