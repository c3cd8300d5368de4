package stages

import (
	"slices"

	"psim/costmodel/network"
	"psim/schedules/graph"
)

// A Segment is a run of layers of a stage that run and are compiled together: the whole stage,
// the layers that complete a bucket of gradients, or one layer.
type Segment struct {
	Layers []network.Layer
	Part   uint16 // the part of the stage's backward that runs them
}

// Parts is the number of parts into which the backward of a stage is cut so that gradients can
// leave: one for each bucket that leaves before the next one is computed. A backward that is
// cut at all-to-alls is not cut at buckets.
func (staged *Staged) Parts(s *Stage) int {
	if !staged.Overlap || len(s.forwardExchanges) > 0 {
		return 1
	}
	return max(1, len(s.Buckets))
}

// segments cuts a stage where a part of its backward ends, before a loss with a task of its own,
// or after every layer if each has a backward of its own. The backward of a layer belongs to the
// part that completes the first of its gradients, or to a later one. A layer that computes nothing
// stays with the one before it, whose result it passes on.
func (staged *Staged) segments(st *Stage) []Segment {
	parts := staged.Parts(st)
	var segments []Segment // in the order of the backward
	part, end := 0, len(st.Layers)
	for first := end - 1; first >= 0; first-- {
		if parts > 1 && len(st.BucketOf[first]) > 0 {
			part = max(part, slices.Min(st.BucketOf[first]))
		}
		if first > 0 && st.Layers[first].Idle() {
			continue
		}
		n := len(segments)
		apart := end < len(st.Layers) && st.Layers[end].OnlyLoss()
		if n > 0 && !apart && !staged.Training.PerLayer() && int(segments[n-1].Part) == part {
			last := &segments[n-1]
			last.Layers = st.Layers[first : end+len(last.Layers)]
		} else {
			segments = append(segments, Segment{st.Layers[first:end], uint16(part)})
		}
		end = first
	}
	slices.Reverse(segments)
	return segments
}

// Alike reports whether two stages cost the same: their layers share operations and buffers,
// their gradients are in equal buckets, and both have neighbours on other ranks on both sides.
func (staged *Staged) Alike(s, t int) bool {
	a, b := &staged.Stages[s], &staged.Stages[t]
	if len(a.Buckets) != len(b.Buckets) || !staged.SameLayers(s, t) {
		return false
	}
	if !staged.hasNeighbours(s) || !staged.hasNeighbours(t) { // so neither is the first, whose W may be more
		return false
	}
	for i := range a.Layers {
		if len(a.Held[i]) != len(b.Held[i]) {
			return false
		}
	}
	for i := range a.Buckets {
		if a.Buckets[i].Bytes != b.Buckets[i].Bytes || len(a.Buckets[i].Tensors) != len(b.Buckets[i].Tensors) {
			return false
		}
	}
	return true
}

// SameLayers reports whether the layers of two stages share operations and buffers.
func (staged *Staged) SameLayers(s, t int) bool {
	return slices.EqualFunc(staged.Stages[s].Layers, staged.Stages[t].Layers, network.Layer.Shares)
}

// SameLaunches reports whether the passes of two stages take the same launches.
func (staged *Staged) SameLaunches(s, t int) bool {
	return staged.SameLayers(s, t) && staged.TakesAll(s) == staged.TakesAll(t) && staged.Unsplit(s) == staged.Unsplit(t)
}

// hasNeighbours reports whether a stage has others on other ranks on either side.
func (staged *Staged) hasNeighbours(s int) bool {
	return s > 0 && s < len(staged.Stages)-1 &&
		!staged.Placement.Together(s-1, s) && !staged.Placement.Together(s, s+1)
}

// Sliced records which passes of a graph are cut into parts.
type Sliced struct {
	microbatches int
	// By stage and microbatch; nil if no pass of the kind is cut. A B or a W is a backward.
	forward, inputs, backwards []bool
}

// SlicedIn finds the passes that are cut in the first replica. They depend on the schedule,
// because the first forward or the last backward of a stage may belong to any microbatch.
func SlicedIn(g *graph.Graph) Sliced {
	s := Sliced{microbatches: g.Shape.Microbatches}
	for i := range g.Classes {
		s.note(g, &g.Classes[i], g.Classes[i].Microbatch)
	}
	for i, microbatch := range g.Microbatch {
		s.note(g, g.Class(int32(i)), microbatch)
	}
	return s
}

// note notes the pass of a task of the first replica.
func (s *Sliced) note(g *graph.Graph, t *graph.Task, microbatch int32) {
	if t.Part == 0 || !t.Kind.Compute() || int(t.Rank) >= g.Shape.Ranks {
		return
	}
	passes := s.passesOf(t.Kind)
	if *passes == nil {
		*passes = make([]bool, g.Placement.Stages()*s.microbatches)
	}
	(*passes)[int(t.Stage)*s.microbatches+int(microbatch)] = true
}

// passesOf returns the list for a kind of pass.
func (s *Sliced) passesOf(k graph.Kind) *[]bool {
	switch k {
	case graph.Forward:
		return &s.forward
	case graph.InputGradient:
		return &s.inputs
	}
	return &s.backwards
}

// SplitBackward reports whether a task is the I or the W of a part of a backward: both passes of
// the stage and microbatch are cut in the same places, and their parts take turns.
func (s *Sliced) SplitBackward(t *graph.Task) bool {
	if s.inputs == nil || s.backwards == nil || t.Kind != graph.InputGradient && t.Kind != graph.WeightGradient {
		return false
	}
	at := int(t.Stage)*s.microbatches + int(t.Microbatch)
	return s.inputs[at] && s.backwards[at]
}

// Has reports whether a task belongs to a pass that is cut.
func (s *Sliced) Has(t *graph.Task) bool {
	if !t.Kind.Pass() {
		return false
	}
	passes := *s.passesOf(t.Kind)
	return passes != nil && passes[int(t.Stage)*s.microbatches+int(t.Microbatch)]
}
