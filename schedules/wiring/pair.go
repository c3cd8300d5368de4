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

// interleaved reports whether the i-th action of a pipeline rank is the first of a pair
// whose parts alternate.
func (p *Pipeline) interleaved(rank, i int) bool {
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
			b.part(x)
		} else {
			b.part(y)
		}
	}
}

// partnerNeeds adds what a compute task waits for beyond its own needs: the first half
// of a fused pair, and both of an overlapped one, for what the other half needs, half of
// an overlapped one for all before the pair on its rank, and what comes after an
// overlapped pair for both halves, which run on streams of their own.
func (c *connector) partnerNeeds(deps []int32, t *graph.Task, at *progress) []int32 {
	partner, isHalf := c.partner(t.Rank, at.action)
	if isHalf && !(c.Pairs == Fused && at.again) {
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

// begins goes on to the next action of a rank, of which a task is the first part.
func (c *connector) begins(t *graph.Task, at *progress) {
	actions := c.Order[int(t.Rank)%c.Shape.Ranks]
	is := func(a order.Action) bool {
		same := a.Stage == t.Stage && a.Microbatch == t.Microbatch
		return same && (a.Kind == t.Kind || a.Kind == graph.Backward && t.Kind == graph.InputGradient)
	}
	i := at.actions
	at.again = i > 0 && actions[i-1].Pair
	switch {
	case is(actions[i]):
		at.action = i
	case at.again: // the B came first
		at.action = i - 1
	default:
		at.action = i + 1
	}
	at.actions++
}

// follows reports whether a task is a W of the B at hand.
func (c *connector) follows(t *graph.Task, at *progress) bool {
	return c.DelayWeights && t.Kind == graph.WeightGradient && c.Order[int(t.Rank)%c.Shape.Ranks][at.action].Kind == graph.Backward
}

// ends notes a compute task that ends an action, for what comes after it.
func (c *connector) ends(t *graph.Task, i int32, at *progress) {
	half := 0
	if _, ok := c.partner(t.Rank, at.action); ok && t.Kind != graph.Forward {
		half = 1
	}
	at.ended[half] = i
}

// released lists what a message waits for: the compute task before it, and the
// other half of an overlapped pair.
func (c *connector) released(t *graph.Task, at *progress) (computed, partner int32) {
	if c.Pairs != Overlap {
		return at.computed, graph.None
	}
	other, ok := c.partner(t.Rank, at.action)
	if ok && (other.Kind == graph.Forward) == (t.Kind == graph.SendForward) {
		other = c.Order[int(t.Rank)%c.Shape.Ranks][at.action]
	}
	if !ok {
		return at.computed, graph.None
	}
	return at.computed, *c.made.of(other)
}
