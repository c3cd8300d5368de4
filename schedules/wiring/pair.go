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
// interleaved, B first, so that one computes while the other exchanges:
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

// partner returns the other half of an overlapped pair, given the i-th action of a
// rank, or false if that is not half of a pair.
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

// streamOf returns the stream of the i-th action. The backward of an overlapped
// pair runs on a second compute stream.
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
// whose parts are interleaved.
func (p *Pipeline) interleaved(rank int32, i int) bool {
	a := p.Order[rank][i]
	return a.Pair && p.Pairs != Serial && (p.divided(a.Stage) || p.divided(p.Order[rank][i+1].Stage))
}

// addPair adds the pair whose first action is the i-th, interleaving the parts of both evenly. A
// fused pair begins with the B, whose part before its first all-to-all is short except on the last
// stage.
func (b *rankBuilder) addPair(i int) {
	first, second := b.start(i), b.start(i+1)
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

// begins returns the index of the action of a rank that begins as the n-th. It differs from n in
// interleaved fused pairs, where the B begins first.
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

// partnerNeeds appends what the n-th action that a rank begins waits for because of pairs. The first
// half of a fused pair, and both halves of an overlapped one, wait for what the other half
// needs. The halves of an overlapped pair run on two streams: both wait for the action or pair
// before on their rank, and the action after waits for both.
func (c *connector) partnerNeeds(deps []int32, n int, i int32) []int32 {
	partner, isHalf := c.partner(c.rank, c.at)
	second := n > 0 && c.Order[c.rank][n-1].Pair
	if isHalf && !(c.Pairs == Fused && second) {
		deps = c.needs(deps, &partner, i)
	}
	if c.Pairs != Overlap {
		return deps
	}
	if backward := isHalf && partner.Kind == graph.Forward; !backward { // the forward comes first
		c.before, c.ended = c.ended, [2]int32{graph.None, graph.None}
	}
	if isHalf || c.before[1] != graph.None {
		deps = append(deps, c.before[0], c.before[1])
	}
	return deps
}

// note handles a task of the current action, if pairs overlap: it records a compute task for the
// actions after it, and makes a message wait for the other half of its pair.
func (c *connector) note(i int32) {
	if c.Pairs == Overlap {
		c.noteOverlap(i)
	}
}

func (c *connector) noteOverlap(i int32) {
	kind := c.graph.Class(i).Kind
	partner, isHalf := c.partner(c.rank, c.at)
	switch {
	case kind.Pass() && isHalf && kind != graph.Forward:
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
