package memory

import (
	"slices"

	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// In PyTorch zero_grad sets gradients to None. A gradient then exists from the backward of its layer
// until the update, and not during a forward. With several microbatches all but the first meet the
// gradients of those before, and an all-reduce has its buckets from step to step: neither is different
// from gradients that stay.

// freesGradients reports whether no gradient stays from step to step.
func freesGradients(staged *stages.Staged) bool {
	alone := staged.Replicas <= 1 && staged.Context <= 1
	return staged.Process.FreedGradients && len(staged.Samples) == 1 && staged.Placement.Second == nil &&
		(alone || staged.Zero >= 2) && !staged.SumOnce
}

// FreesGradients reports whether an update frees gradients: either none stays, or those of all microbatches are whole
// until their shares replace them.
func FreesGradients(staged *stages.Staged) bool {
	return freesGradients(staged) || staged.SumOnce && staged.Gathers() && staged.Process.FreedGradients
}

// addGradients adds the bytes of gradients that the backward of every layer makes, if the update frees them. A tied
// tensor's gradient is made by the last layer that has it.
func addGradients(staged *stages.Staged, kept []layerKept) {
	if !freesGradients(staged) {
		return
	}
	for s := range staged.Stages {
		st := &staged.Stages[s]
		bytes, waiting := gradientsOf(staged, st, keptStateOf(staged)), map[string]bool{}
		for _, t := range st.Tensors {
			waiting[t.Name] = true
		}
		var elements, before int64
		for i := len(st.Layers) - 1; i >= 0 && st.Parameters > 0; i-- {
			for _, t := range slices.Concat(st.Held[i], st.Layers[i].Tied) {
				if waiting[t.Name] {
					elements += t.Shape.Elements()
				}
				delete(waiting, t.Name)
			}
			upTo := int64(float64(bytes) * (float64(elements) / float64(st.Parameters))) // whole, and in the sum all
			kept[i].made, before = upTo-before, upTo
		}
		kept = kept[len(st.Layers):]
	}
}

// freedBy returns the bytes of gradients that an update frees.
func (l *Ledger) freedBy(t *graph.Task) (bytes int64) {
	if !freesGradients(l.staged) {
		return 0
	}
	return l.ofUpdate(t, func(st *stages.Stage) int64 { return gradientsOf(l.staged, st, keptStateOf(l.staged)) })
}

// rootsOf returns the bytes that an update in many kernels holds while it runs.
func (l *Ledger) rootsOf(t *graph.Task) int64 {
	root := l.staged.Training.RootBytes()
	if root == 0 {
		return 0
	}
	return l.ofUpdate(t, func(st *stages.Stage) int64 { return l.staged.ShareOf(st, root, 1) })
}

// ofUpdate adds up over the stages that an update is about.
func (l *Ledger) ofUpdate(t *graph.Task, of func(*stages.Stage) int64) (bytes int64) {
	rank := t.Rank % int32(max(1, l.graph.Shape.Ranks))
	for s := range l.staged.Stages {
		st := &l.staged.Stages[s]
		if slices.Contains(st.Ranks, rank) && (t.Stage == graph.None || int(t.Stage) == s) {
			bytes += of(st)
		}
	}
	return bytes
}
