package schedules

import (
	"fmt"
	"slices"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// Exchanging makes pairs of the backwards and forwards of a pipeline that are next to each
// other, so that one computes while the other exchanges tokens with its experts
// (megatron/core/pipeline_parallel/combined_1f1b.py). A backward goes with the forward
// after it, as if one more forward had come first:
//
//	F0 F1 B0 F2 B1 F3 B2 B3    F0 F1 (F2;B0) (F3;B1) B2 B3
//
// Since a pair hands on both results at its end, a rank has to be two forwards ahead of the
// next one to find its gradients in time, as with stages in turns; so 1f1b warms up twice as
// long. A schedule of pairs stays as it is.
func (s Schedule) Exchanging(p wiring.Pipeline) (wiring.Pipeline, error) {
	switch {
	case p.Order.Paired():
		return p, nil
	case s.Name == "1f1b":
		p.Order = inTurn(ahead(2), nil)(p.Shape, nil)
	case s.Name != "interleaved-1f1b" && s.Name != "ddp":
		return p, fmt.Errorf("expert_overlap = true: runs forwards beside backwards of 1f1b, interleaved-1f1b, ddp, dualpipe or dualpipev, and not of %s; choose one of these, or set expert_overlap = false", s.Name)
	}
	p.Order = slices.Clone(p.Order)
	for r := range p.Order {
		p.Order[r] = paired(p.Order[r])
	}
	return p, nil
}

// paired makes a pair of every B with the F after it.
func paired(actions []order.Action) []order.Action {
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
