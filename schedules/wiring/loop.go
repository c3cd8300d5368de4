package wiring

import (
	"fmt"

	"psim/schedules/graph"
)

// Loop asks for the tasks of a training loop that are otherwise part of others: every rank first
// sets its gradients to zero, and the last stage computes the loss between F and B. The backward
// of the loss stays in B.
//
//	compute   ZERO  F0 LOSS0 B0  F1 LOSS1 B1  …
type Loop struct {
	Gradients []int64 // by pipeline rank: the bytes that are set to zero
	Logits    int64   // the bytes per sample that the loss reads
}

// addZero adds the task that sets the rank's gradients to zero, before all that it computes.
func (b *rankBuilder) addZero() {
	if b.Loop == nil {
		return
	}
	b.computed = b.addSingle(graph.Task{
		Kind: graph.Zero, Stream: b.compute, Stage: graph.None, Microbatch: graph.None, Peer: graph.None,
		Bytes: b.Loop.Gradients[b.rank],
	})
}

// makesLoss reports whether a loss follows the actions of a kind on a stage.
func (p *Pipeline) makesLoss(k graph.Kind, stage int32) bool {
	return p.Loop != nil && k == graph.Forward && int(stage) == p.Placement.Stages()-1
}

// addLoss adds the loss of the microbatch of an F, and returns it.
func (b *rankBuilder) addLoss(p *progress) int32 {
	class := b.entry(losses, p.on, p.variant)
	if *class == graph.None {
		t := b.task(&p.Action, graph.Loss, p.stream)
		t.Bytes = b.Loop.Logits * b.samples(p.Microbatch, 0)
		*class = b.addClasses(t, 1)
	}
	b.computed = b.graph.Put(*class, p.stream, p.Microbatch)
	return b.computed
}

// checkLoop reports options that do not go with the tasks of a loop.
func (p *Pipeline) checkLoop() error {
	switch {
	case p.Loop == nil:
		return nil
	case p.Stashing:
		return fmt.Errorf("detail = \"loop\": %s updates a stage after every microbatch, so that no gradients are "+
			"set to zero once a step; set detail = \"step\"", p.Name)
	case len(p.Loop.Gradients) != p.Shape.Ranks:
		return fmt.Errorf("gradients of %d ranks to set to zero; there are %d", len(p.Loop.Gradients), p.Shape.Ranks)
	}
	return nil
}
