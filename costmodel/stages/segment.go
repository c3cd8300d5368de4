package stages

import (
	"slices"

	"psim/costmodel/network"
	"psim/schedules/graph"
)

// A Segment is consecutive layers of a stage that run together, and are compiled
// together: all of the stage, or what completes a gradient bucket, or one layer.
type Segment struct {
	Layers []network.Layer
	// Part of the stage's backward that runs them, where it is cut into parts.
	Part uint16
}

// Parts is the number of parts into which the backward of a stage is cut when its
// gradients leave: one for each bucket that leaves before the next is computed. Where
// all-to-alls cut it, gradients do not.
func (staged *Staged) Parts(s *Stage) int {
	if !staged.Overlap || len(staged.exchanges(s.Layers, graph.Forward)) > 0 {
		return 1
	}
	return max(1, len(s.Buckets))
}

// segments cuts a stage where a part of its backward ends, or at every layer where
// each has a backward of its own. A layer's backward is in the part that waits for
// the first of its gradients, or a later one. A layer that computes nothing goes with
// the one before it, whose result it hands on.
func (staged *Staged) segments(st *Stage) []Segment {
	of, parts := bucketByTensor(st.Buckets), staged.Parts(st)
	var segments []Segment // last first
	part, end := 0, len(st.Layers)
	for first := end - 1; first >= 0; first-- {
		if parts > 1 {
			part = max(part, firstOf(st.Held[first], of))
		}
		if first > 0 && st.Layers[first].Idle() {
			continue
		}
		n := len(segments)
		if n > 0 && !staged.Training.PerLayer() && int(segments[n-1].Part) == part {
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

// firstOf finds the first bucket with one of the tensors, or 0.
func firstOf(tensors []network.Tensor, bucketOf map[string]int) int {
	first := -1
	for _, t := range tensors {
		if k, ok := bucketOf[t.Name]; ok && (first < 0 || k < first) {
			first = k
		}
	}
	return max(first, 0)
}

// Alike reports whether two stages do the same: their layers share what they
// compute, their gradients travel in the same pieces, and both have other stages on other
// ranks on either side.
func (staged *Staged) Alike(s, t int) bool {
	a, b := &staged.Stages[s], &staged.Stages[t]
	if len(a.Buckets) != len(b.Buckets) || !staged.hasNeighbours(s) || !staged.hasNeighbours(t) || !staged.SameLayers(s, t) {
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

// SameLayers reports whether the layers of two stages share what they compute.
func (staged *Staged) SameLayers(s, t int) bool {
	return slices.EqualFunc(staged.Stages[s].Layers, staged.Stages[t].Layers, network.Layer.Shares)
}

// hasNeighbours reports whether a stage has others on other ranks on either side.
func (staged *Staged) hasNeighbours(s int) bool {
	return s > 0 && s < len(staged.Stages)-1 && !staged.Placement.Together(s-1, s) && !staged.Placement.Together(s, s+1)
}

// Sliced tells which passes of a graph are cut into parts.
type Sliced struct {
	microbatches               int
	forward, inputs, backwards []bool // by stage and microbatch; a B or W is a backward; nil: none
}

// SlicedIn reads them off the first replica: which they are is the schedule's
// matter, as the first forward or last backward of a stage may be of any microbatch.
func SlicedIn(g *graph.Graph) Sliced {
	s := Sliced{microbatches: g.Shape.Microbatches}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if int(t.Rank) >= g.Shape.Ranks {
			break
		}
		if t.Kind.Compute() && t.Part > 0 {
			of := s.passesOf(t.Kind)
			if *of == nil {
				*of = make([]bool, g.Placement.Stages()*s.microbatches)
			}
			(*of)[int(t.Stage)*s.microbatches+int(t.Microbatch)] = true
		}
	}
	return s
}

func (s *Sliced) passesOf(k graph.Kind) *[]bool {
	switch k {
	case graph.Forward:
		return &s.forward
	case graph.InputGradient:
		return &s.inputs
	}
	return &s.backwards
}

// Halved reports whether a task is half of a part of a backward: the I and the W of a stage
// and microbatch are cut alike, and their parts take turns.
func (s *Sliced) SplitBackward(t *graph.Task) bool {
	at := int(t.Stage)*s.microbatches + int(t.Microbatch)
	return s.inputs != nil && s.backwards != nil && (t.Kind == graph.InputGradient || t.Kind == graph.WeightGradient) && s.inputs[at] && s.backwards[at]
}

// Has reports whether a task is of such a pass.
func (s *Sliced) Has(t *graph.Task) bool {
	of := *s.passesOf(t.Kind)
	return of != nil && of[int(t.Stage)*s.microbatches+int(t.Microbatch)]
}
