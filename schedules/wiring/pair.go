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
//
// With experts on other devices, the parts of a fused pair between its all-to-alls are
// interleaved, the B's first, so that one computes while the other exchanges:
//
//	compute   B F B  F B  F
//	experts    b f bbf bbf        of B, of F
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
	actions := p.Order[rank]
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
	return b.open(&b.overlapped, "compute beside")
}

// interleaved reports whether the i-th action of a pipeline rank is the first of a pair
// whose parts alternate.
func (p *Pipeline) interleaved(rank int32, i int) bool {
	a := p.Order[rank][i]
	return a.Pair && p.Pairs != Serial && (p.divided(a.Stage) || p.divided(p.Order[rank][i+1].Stage))
}

// pair adds a pair, of which the i-th action is the first, part by part: of both as much
// at any time, and a fused one's B first, whose part before its first all-to-all is small
// but on the last stage.
func (b *rankBuilder) pair(i int) {
	first, second := b.parts(i), b.parts(i+1)
	if b.Pairs == Fused {
		first, second = second, first
	}
	for x, y := &first, &second; x.next < x.cut.parts || y.next < y.cut.parts; {
		if x.next*y.cut.parts <= y.next*x.cut.parts {
			b.addPart(x)
		} else {
			b.addPart(y)
		}
	}
}

// begins finds which action of a rank begins as the n-th: the B of a fused pair whose parts
// alternate comes first.
func (p *Pipeline) begins(rank int32, n int) int {
	switch {
	case p.Pairs != Fused || p.Exchanges == nil:
	case p.interleaved(rank, n):
		return n + 1
	case n > 0 && p.interleaved(rank, n-1):
		return n - 1
	}
	return n
}

// partnerNeeds adds what the n-th action that a rank begins waits for beyond its own needs: the
// first half of a fused pair, and both of an overlapped one, for what the other half needs, half
// of an overlapped one for all before the pair on its rank, and what comes after an
// overlapped pair for both halves, which run on streams of their own.
func (c *connector) partnerNeeds(deps []int32, n int, i int32) []int32 {
	partner, isHalf := c.partner(c.rank, c.at)
	again := n > 0 && c.Order[c.rank][n-1].Pair
	if isHalf && !(c.Pairs == Fused && again) {
		deps = c.needs(deps, &partner, i)
	}
	if c.Pairs != Overlap {
		return deps
	}
	second := isHalf && partner.Kind == graph.Forward
	if !second {
		c.before, c.ended = c.ended, [2]int32{graph.None, graph.None}
	}
	if isHalf || c.before[1] != graph.None {
		deps = append(deps, c.before[0], c.before[1])
	}
	return deps
}

// note notes a task of the action at hand, where pairs overlap: a compute task for what comes
// after it, while a message waits for the other half of its pair as well.
func (c *connector) note(i int32) {
	if c.Pairs == Overlap {
		c.noteOverlap(i)
	}
}

func (c *connector) noteOverlap(i int32) {
	kind := c.graph.Class(i).Kind
	partner, isHalf := c.partner(c.rank, c.at)
	switch {
	case kind.Compute() && isHalf && kind != graph.Forward:
		c.ended[1] = i
	case kind.Compute():
		c.ended[0] = i
	case kind.Message() && isHalf:
		other := &partner
		if (other.Kind == graph.Forward) == (kind == graph.SendForward) {
			other = &c.Order[c.rank][c.at]
		}
		c.graph.Wait(i, i-1, c.computed(other))
	}
}
