package plans

import (
	"time"

	"psim/schedules/graph"
	"psim/schedules/order"
	"psim/schedules/wiring"
)

// An outline runs the passes of an order at their prices, with the messages between stages, and nothing else: no
// queues of links and collectives, no shared ports, no hosts. So it takes no longer than the step, and much less
// time than a simulation, which has ten tasks for a pass. It reuses its memory. The zero value is ready for use.
type outline struct {
	*wiring.Pipeline
	fused   bool               // pairs begin when both halves can
	half    int32              // the first microbatch of the second copy of the stages
	passes  []time.Duration    // by copy of a stage and kind: how long it takes
	exposed []time.Duration    // by copy and kind: all-to-alls in it, which hide behind the other half of a pair
	arrives [2][]time.Duration // by direction and copy: from the start of a message until it has arrived
	sends   [2][]time.Duration // by direction and copy: how long the message keeps its stream
	streams [2][]int32         // by direction and copy: the stream of the message; None within a rank
	free    []time.Duration    // by stream: when it has sent its last message

	// By direction, stage and microbatch: when the result has arrived; -1 if it is not known, and -2 - r if rank r
	// waits for it.
	results [2][]time.Duration
	ranks   []rankOutline
	awake   []int32
}

// A rankOutline is how far a rank has come.
type rankOutline struct {
	next int // in its actions
	now  time.Duration
}

const kindsOfPass = int(graph.WeightGradient) + 1

// run returns a time that the step is not shorter than; 0 if the order is not of a kind that an outline can run.
func (o *outline) run(p *wiring.Pipeline, prices *sharedPrices, kind orderKind) time.Duration {
	if p.DelayWeights || p.Pairs == wiring.Overlap {
		return 0
	}
	o.reset(p, prices)
	for len(o.awake) > 0 {
		r := o.awake[len(o.awake)-1]
		o.awake = o.awake[:len(o.awake)-1]
		o.advance(r)
	}
	var end time.Duration
	after := prices.tails.of(kind)
	for r := range o.ranks {
		if o.ranks[r].next < len(p.Order[r]) {
			return 0 // the order deadlocks; the simulation says so
		}
		end = max(end, o.ranks[r].now+after[r])
	}
	return end
}

// reset prepares an outline for an order.
func (o *outline) reset(p *wiring.Pipeline, prices *sharedPrices) {
	o.Pipeline, o.fused, o.half = p, p.Pairs == wiring.Fused && !p.Synchronous, int32(p.Shape.Microbatches)
	at, stages := p.Placement, p.Placement.Stages()
	if at.Second != nil {
		o.half = at.Half
	}
	copies := stages * len(prices.routes)
	o.passes, o.exposed = grown(o.passes, copies*kindsOfPass), grown(o.exposed, copies*kindsOfPass)
	for d := range o.results {
		o.arrives[d], o.sends[d] = grown(o.arrives[d], copies), grown(o.sends[d], copies)
		o.streams[d] = grown(o.streams[d], copies)
		o.results[d] = grown(o.results[d], stages*p.Shape.Microbatches)
		for i := range o.results[d] {
			o.results[d][i] = unknown
		}
	}
	o.free = o.free[:0]
	numbers := map[[3]int32]int32{}
	for c := range prices.routes {
		o.add(c, &prices.routes[c], numbers)
	}
	o.ranks, o.awake = append(o.ranks[:0], make([]rankOutline, len(p.Order))...), o.awake[:0]
	for r := range p.Order {
		o.awake = append(o.awake, int32(r))
	}
}

// add adds a copy of the stages; numbers has the streams by direction and ranks.
func (o *outline) add(c int, way *route, numbers map[[3]int32]int32) {
	stages, ranks := len(way.passes), o.Placement.First
	if c > 0 {
		ranks = o.Placement.Second
	}
	for s := range stages {
		i, t := c*stages+s, &way.passes[s]
		input, weight := t.input, t.weight
		if o.Unsplit && s == 0 {
			input, weight = input-t.back, weight+t.back
		}
		copy(o.passes[i*kindsOfPass:], []time.Duration{t.forward, t.backward, input, weight})
		copy(o.exposed[i*kindsOfPass:], []time.Duration{t.there, t.back, 0, 0})
		o.arrives[0][i], o.arrives[1][i] = way.there[s], way.back[s]
		o.sends[0][i], o.sends[1][i] = way.sendThere[s], way.sendBack[s]
		for d, to := range [2]int{s + 1, s - 1} {
			o.streams[d][i] = graph.None
			if to < 0 || to == stages || ranks[to] == ranks[s] {
				continue
			}
			key := [3]int32{int32(d), ranks[s], ranks[to]}
			n, known := numbers[key]
			if !known {
				n = int32(len(o.free))
				numbers[key], o.free = n, append(o.free, 0)
			}
			o.streams[d][i] = n
		}
	}
}

const unknown = time.Duration(-1)

// advance runs the actions of a rank until one has to wait for a result of another rank.
func (o *outline) advance(r int32) {
	on, actions := &o.ranks[r], o.Order[r]
	for on.next < len(actions) {
		a := &actions[on.next]
		ready, known := o.ready(a, r, on.now)
		if !known {
			return
		}
		if a.Pair && o.fused {
			b := &actions[on.next+1]
			if ready, known = o.ready(b, r, ready); !known {
				return
			}
			on.now = o.pair(a, b, ready)
			on.next += 2
			continue
		}
		at := o.at(a)
		on.now = ready + o.passes[at*kindsOfPass+int(a.Kind)]
		if a.Kind != graph.WeightGradient {
			o.deliver(a, at, on.now)
		}
		on.next++
	}
}

// pair runs an overlapped pair of an F and a B, and returns when both have ended. All-to-alls of each hide behind the
// other.
func (o *outline) pair(f, b *order.Action, start time.Duration) time.Duration {
	atF, atB := o.at(f), o.at(b)
	iF, iB := atF*kindsOfPass+int(f.Kind), atB*kindsOfPass+int(b.Kind)
	endF, hidden := start+o.passes[iF], o.exposed[iF]+o.exposed[iB]
	endB, end := start+o.passes[iB], endF+o.passes[iB]-hidden
	if hidden == 0 {
		endB = end
	}
	o.deliver(f, atF, endF)
	o.deliver(b, atB, endB)
	return max(end, endF, endB)
}

// at returns the copy of its stage that an action runs on.
func (o *outline) at(a *order.Action) int {
	if a.Microbatch >= o.half {
		return int(a.Stage) + o.Placement.Stages()
	}
	return int(a.Stage)
}

// ready returns when an action can begin that a rank comes to at a time. If that is not known, the rank waits.
func (o *outline) ready(a *order.Action, r int32, now time.Duration) (at time.Duration, known bool) {
	var from *time.Duration
	switch m := o.Shape.Microbatches; {
	case a.Kind == graph.Forward && a.Stage > 0:
		from = &o.results[0][int(a.Stage-1)*m+int(a.Microbatch)]
	case (a.Kind == graph.Backward || a.Kind == graph.InputGradient) && int(a.Stage) < o.Placement.Stages()-1:
		from = &o.results[1][int(a.Stage+1)*m+int(a.Microbatch)]
	default:
		return now, true
	}
	if *from < 0 {
		*from = time.Duration(-2 - r)
		return 0, false
	}
	return max(now, *from), true
}

// deliver delivers the result of an action to the rank that needs it.
func (o *outline) deliver(a *order.Action, at int, now time.Duration) {
	d := 0
	if a.Kind != graph.Forward {
		d = 1
	}
	if s := o.streams[d][at]; s != graph.None {
		now = max(now, o.free[s])
		o.free[s] = now + o.sends[d][at]
		now += o.arrives[d][at]
	}
	to := &o.results[d][int(a.Stage)*o.Shape.Microbatches+int(a.Microbatch)]
	if *to < unknown {
		o.awake = append(o.awake, int32(-2-*to))
	}
	*to = now
}

// grown returns a slice of length n, in the memory of s if that is large enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
