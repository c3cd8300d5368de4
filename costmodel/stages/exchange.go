package stages

import (
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// An Exchange is an all-to-all of an expert group within a pass of a stage. It cuts the pass in
// two.
type Exchange struct {
	Layer int   // index in the stage
	Bytes int64 // that a device sends to other devices, per sample
}

// Exchanges lists the all-to-alls of a pass of a stage (F, B or I) in the order in which the
// pass runs them. W has none.
func (staged *Staged) Exchanges(stage int, k graph.Kind) []Exchange {
	switch k {
	case graph.Forward:
		return staged.Stages[stage].forwardExchanges
	case graph.WeightGradient:
		return nil
	}
	return staged.Stages[stage].backwardExchanges
}

// PartsOf is the number of parts into which a pass of a stage is cut: at its all-to-alls, or
// without any where gradients leave (backward) or parameters arrive (forward).
func (staged *Staged) PartsOf(stage int, k graph.Kind) int {
	st := &staged.Stages[stage]
	switch exchanges := len(staged.Exchanges(stage, graph.Forward)); {
	case exchanges > 0 && k == graph.Forward:
		return exchanges + 1
	case exchanges > 0:
		return len(staged.Exchanges(stage, k)) + 1
	case k == graph.Forward:
		return max(1, len(st.Ahead))
	}
	return staged.Parts(st)
}

// scatterParts returns, under ZeRO 3, the part of a backward with which the gradients of each of the stage's
// collectives are complete; nil if no part of it exchanges tokens.
func (staged *Staged) scatterParts(stage int) (parts []int) {
	completed := staged.Stages[stage].bucketParts
	if completed == nil {
		return nil
	}
	for _, flats := range staged.GatheredFlats(stage) {
		switch {
		case parametersOf(flats) == 0: // has no gradients
		case flats[0].Experts:
			parts = append(parts, completed[0])
		default:
			parts = append(parts, completed[1])
		}
	}
	return parts
}

// WiredExchanges returns the all-to-alls of all stages as the wiring takes them; nil if experts
// are divided as the rest of their layer.
func (staged *Staged) WiredExchanges() []wiring.Exchanges {
	if !staged.Network.Group.Dispatches() {
		return nil
	}
	list := make([]wiring.Exchanges, len(staged.Stages))
	for s := range list {
		e := &list[s]
		for _, x := range staged.Exchanges(s, graph.Forward) {
			e.Forward = append(e.Forward, x.Bytes)
		}
		for _, x := range staged.Exchanges(s, graph.Backward) {
			e.Backward = append(e.Backward, x.Bytes)
		}
		if e.Leaves, e.Awaits = staged.Stages[s].bucketParts, staged.Stages[s].awaitedGathers; staged.Zero >= 3 {
			e.Leaves = staged.scatterParts(s)
		}
	}
	return list
}
