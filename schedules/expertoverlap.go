package schedules

import (
	"fmt"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// OverlapExperts makes overlapped pairs of neighbouring backwards and forwards of a
// pipeline, so that one computes while the other exchanges tokens with its experts
// (megatron/core/pipeline_parallel/combined_1f1b.py). A backward is paired with the
// forward after it, as if one more forward had come first:
//
//	F0 F1 B0 F2 B1 F3 B2 B3    F0 F1 (F2;B0) (F3;B1) B2 B3
//
// A pair delivers both results at its end. So a rank must be two forwards ahead of the
// next rank to have its gradients in time, as in the interleaved schedule, and 1f1b
// warms up twice as long. A schedule that already has pairs stays as it is.
func (s Schedule) OverlapExperts(p wiring.Pipeline) (wiring.Pipeline, error) {
	switch {
	case p.Order.Paired():
		return p, nil
	case s.Name == "1f1b":
		p.Order = alternatingOrder(warmUpPerRank(2), nil)(p.Shape, nil)
	case s.Name != "interleaved-1f1b" && s.Name != "ddp":
		return p, fmt.Errorf("expert_overlap = true: overlaps forwards and backwards of 1f1b, interleaved-1f1b, ddp, "+
			"dualpipe or dualpipev, not of %s; choose one of these, or set expert_overlap = false", s.Name)
	}
	p.Order = slices.Clone(p.Order)
	for r := range p.Order {
		p.Order[r] = pairBackwards(p.Order[r])
	}
	return p, nil
}

// pairBackwards pairs every B with the F after it.
func pairBackwards(actions []order.Action) []order.Action {
	actions = slices.Clone(actions)
	for i := 0; i+1 < len(actions); i++ {
		if actions[i].Kind == graph.Backward && actions[i+1].Kind == graph.Forward {
			actions[i], actions[i+1] = actions[i+1], actions[i]
			actions[i].Pair = true
			i++
		}
	}
	return actions
}
