package wiring

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Pairing says how the overlapped pairs of an order run: an F and the B
// after it, of different microbatches, as in DualPipe (DeepSeek-AI 2024,
// "DeepSeek-V3", section 3.2.1).
//
//	fused     ·FFBBB     begins when both are ready; F releases at its own end
//	serial    FF·BBB     two ordinary actions
//	overlap   ·FF        begins when both are ready; both release when the
//	          ·BBB       longer has ended
type Pairing uint8

// The pairings.
const (
	Fused Pairing = iota
	Serial
	Overlap
)

// Pairings lists their names.
func Pairings() []string { return []string{"fused", "serial", "overlap"} }

// ParsePairing reads a pairing by name; the empty one is fused.
func ParsePairing(name string) (Pairing, error) {
	for p, n := range Pairings() {
		if name == n || name == "" {
			return Pairing(p), nil
		}
	}
	return 0, fmt.Errorf("%q: must be one of %s", name, strings.Join(Pairings(), ", "))
}

// partner is the other half of an overlapped pair, given the i-th action of a
// rank.
func (w *wiring) partner(rank int32, i int) (order.Action, bool) {
	actions := w.Order[int(rank)%w.Shape.Ranks]
	switch {
	case actions[i].Pair:
		return actions[i+1], true
	case i > 0 && actions[i-1].Pair:
		return actions[i-1], true
	}
	return order.Action{}, false
}

// streamOf is the stream of the i-th action: the backward of an overlapped
// pair has one beside the forward's.
func (w *rankWiring) streamOf(i int) int32 {
	if !w.paired || w.Pairs != Overlap {
		return w.compute
	}
	partner, ok := w.partner(w.rank, i)
	if !ok || partner.Kind != graph.Forward {
		return w.compute
	}
	if w.beside == graph.None {
		w.beside = w.graph.AddStream(w.rank, "compute beside")
	}
	return w.beside
}

// pairNeeds lists what a compute task waits for beyond its own needs: half of
// a fused or overlapped pair for what the other half needs, half of an
// overlapped one for all before the pair on its rank, and what comes after an
// overlapped pair for both halves, which run on streams of their own.
func (w *wiring) pairNeeds(t *graph.Task, at *progress) []int32 {
	partner, isHalf := w.partner(t.Rank, at.actions)
	var needs []int32
	if isHalf && !(w.Pairs == Fused && partner.Kind == graph.Forward) {
		first, second := w.needs(partner)
		needs = append(needs, first, second)
	}
	if w.Pairs != Overlap {
		return needs
	}
	second := isHalf && partner.Kind == graph.Forward
	if !second {
		at.before, at.ended = at.ended, [2]int32{graph.None, graph.None}
	}
	if isHalf || at.before[1] != graph.None {
		needs = append(needs, at.before[0], at.before[1])
	}
	return needs
}

// ends notes a compute task that ends an action, for what comes after it.
func (w *wiring) ends(t *graph.Task, i int32, at *progress) {
	half := 0
	if partner, ok := w.partner(t.Rank, at.actions-1); ok && partner.Kind == graph.Forward {
		half = 1
	}
	at.ended[half] = i
}

// released is what a message waits for: the compute task before it, and the
// other half of an overlapped pair.
func (w *wiring) released(t *graph.Task, at *progress) []int32 {
	if w.paired && w.Pairs == Overlap {
		if partner, ok := w.partner(t.Rank, at.actions-1); ok {
			return []int32{at.computed, w.made(partner)}
		}
	}
	return []int32{at.computed}
}

// made is the task that makes the result of an F, B or I.
func (w *wiring) made(a order.Action) int32 {
	if a.Kind == graph.Forward {
		return w.forward[w.at(a.Stage, a.Microbatch)]
	}
	return w.backward[w.at(a.Stage, a.Microbatch)]
}
