package schedules

import "psim/schedules/wiring"

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
func pipedream() Schedule {
	return Schedule{
		Name: "pipedream", Summary: "1F1B without a flush: an update after every backward, weights stashed",
		About: "The pipeline never empties: every backward updates the weights at once, and a microbatch's " +
			"backward uses the version that its forward used. No bubble in steady state, at the price of " +
			"stale weights and of up to P-r versions of them. What trains is not what a single device trains.",
		Bubble: "(P-1)/(M+P-1), and 0 in steady state", Memory: "min(M, P-r)", Paper: "Narayanan et al. 2019, PipeDream",
		Constraint: "no parameter on two stages, data = 1", Pipelined: true, Stashing: true,
		order: inTurn(ahead(1), nil), legal: wiring.OneReplica,
	}
}
