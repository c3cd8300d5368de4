package schedules

import (
	"fmt"
	"time"
)

// pipedream never lets the pipeline run empty: every backward updates its stage at
// once, and the next microbatch's forward takes the weights as they are, so that a
// steady state has no bubble (Narayanan et al. 2019, "PipeDream", section 3.2).
// A backward needs the weights that its own forward had: a stage stashes a version
// of them for every microbatch in flight (section 3.3), which are P − s at most on
// stage s. The stages of one microbatch may have different versions, because there
// is no vertical sync, which is PipeDream's default too. The order is 1F1B's, with
// U for an update, microbatches left out:
//
//	P = 2:   rank 0   F F · B U F B U F B U … B U
//	         rank 1   · F B U F B U F B U …
//
// The forward of microbatch m on stage s thus has the weights after
// max(0, m − (P − 1 − s)) updates. A graph is one run of M microbatches, which
// fills and drains the pipeline once.
func pipedream(s Shape, stageRank []int32) Order { return oneForwardOneBackward(s, stageRank) }

// oneReplica refuses copies: their updates would have to be summed one by one.
func oneReplica(s Shape) error {
	if s.Replicas > 1 {
		return fmt.Errorf(`name = "pipedream": updates a stage after every microbatch, which is not modelled over replicas; set parallel.data = 1, not %d`, s.Replicas)
	}
	return nil
}

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

// steadyMicrobatch is the time from one microbatch to the next without fill and
// drain, where the pipeline has no flush: the mean of the times between the ends of
// the first stage's backwards. 0 for other graphs, and for a single microbatch.
func (t *Trace) steadyMicrobatch() time.Duration {
	if !t.Graph.Stashing || t.Graph.Shape.Microbatches < 2 {
		return 0
	}
	var first, last time.Duration
	for i := range t.Graph.Tasks {
		if task := &t.Graph.Tasks[i]; task.Kind == Backward && task.Stage == 0 {
			if last = t.Spans[i].End; task.Microbatch == 0 {
				first = last
			}
		}
	}
	return (last - first) / time.Duration(t.Graph.Shape.Microbatches-1)
}
