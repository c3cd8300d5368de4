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

// partner finds the other half of an overlapped pair, given the i-th action of a
// rank.
func (p *Pipeline) partner(rank int32, i int) (order.Action, bool) {
	actions := p.Order[int(rank)%p.Shape.Ranks]
	switch {
	case actions[i].Pair:
		return actions[i+1], true
	case i > 0 && actions[i-1].Pair:
		return actions[i-1], true
	}
	return order.Action{}, false
}

// streamOf chooses the stream of the i-th action: the backward of an overlapped
// pair has one beside the forward's.
func (b *rankBuilder) streamOf(i int) int32 {
	if b.Pairs != Overlap {
		return b.compute
	}
	partner, ok := b.partner(b.rank, i)
	if !ok || partner.Kind != graph.Forward {
		return b.compute
	}
	return b.stream(&b.beside, "compute beside")
}

// partnerNeeds adds what a compute task waits for beyond its own needs: half of
// a fused or overlapped pair for what the other half needs, half of an
// overlapped one for all before the pair on its rank, and what comes after an
// overlapped pair for both halves, which run on streams of their own.
func (c *connector) partnerNeeds(deps []int32, t *graph.Task, at *progress) []int32 {
	partner, isHalf := c.partner(t.Rank, at.actions)
	if isHalf && !(c.Pairs == Fused && partner.Kind == graph.Forward) {
		deps = c.needs(deps, partner)
	}
	if c.Pairs != Overlap {
		return deps
	}
	second := isHalf && partner.Kind == graph.Forward
	if !second {
		at.before, at.ended = at.ended, [2]int32{graph.None, graph.None}
	}
	if isHalf || at.before[1] != graph.None {
		deps = append(deps, at.before[0], at.before[1])
	}
	return deps
}

// ends notes a compute task that ends an action, for what comes after it.
func (c *connector) ends(t *graph.Task, i int32, at *progress) {
	half := 0
	if partner, ok := c.partner(t.Rank, at.actions-1); ok && partner.Kind == graph.Forward {
		half = 1
	}
	at.ended[half] = i
}

// released lists what a message waits for: the compute task before it, and the
// other half of an overlapped pair.
func (c *connector) released(t *graph.Task, at *progress) (computed, partner int32) {
	if c.Pairs == Overlap {
		if partner, ok := c.partner(t.Rank, at.actions-1); ok {
			return at.computed, *c.made.of(partner)
		}
	}
	return at.computed, graph.None
}
