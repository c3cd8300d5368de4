package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// connect adds the dependencies of a replica's tasks, whose indices are now
// all known. Messages and gradient sums follow the compute task before them on
// their rank; the average, the optimizer and the gathering of parameters each
// follow what ends the step before them.
func (w *wiring) connect(first int) {
	at := started(graph.None)
	for i := first; i < len(w.graph.Tasks); i++ {
		t := &w.graph.Tasks[i]
		if t.Rank != at.rank {
			at = started(t.Rank)
		}
		switch {
		case t.Kind.Compute():
			w.connectCompute(t, &at)
			at.compute(int32(i))
			if w.paired {
				w.ends(t, int32(i), &at)
			}
		case t.Kind.Message():
			w.graph.Connect(w.released(t, &at)...)
		case t.Kind == graph.AllGather && t.Microbatch != graph.None:
			w.graph.Connect(w.turn(&at)...)
			at.gathered = int32(i)
		case t.Kind == graph.AllGather:
			w.graph.Connect(at.closing)
		case t.Kind.Collective():
			w.graph.Connect(at.computed)
			at.closing = int32(i)
			at.sums = [2]int32{at.sums[1], int32(i)}
		case t.Microbatch != graph.None: // an update after every backward
			w.graph.Connect(at.computed)
		default: // Average, Optimizer
			w.graph.Connect(at.closing)
			at.closing = int32(i)
		}
	}
}

// progress is how far connecting a rank's tasks has come. Tasks that are not
// there yet are None.
type progress struct {
	rank              int32
	actions           int      // compute tasks so far, slices not counted
	computed, closing int32    // the last compute task; the last that ends the step
	gathered          int32    // the all-gather for the next compute task
	uses              [2]int32 // the last two compute tasks that an all-gather was for
	sums              [2]int32 // the last two gradient sums
	// With overlapped pairs: the tasks that the last action, or pair, ended
	// with, and those of the one before.
	ended, before [2]int32
}

// started is the progress before the first task of a rank.
func started(rank int32) progress {
	none := [2]int32{graph.None, graph.None}
	return progress{rank: rank, computed: graph.None, closing: graph.None, gathered: graph.None, uses: none, sums: none, ended: none, before: none}
}

// compute goes on to the next compute task.
func (p *progress) compute(i int32) {
	p.computed = i
	if p.gathered != graph.None {
		p.uses, p.gathered = [2]int32{p.uses[1], i}, graph.None
	}
}

// connectCompute adds the dependencies of a compute task: results of other
// tasks, room for gradients, its parameters, and the clock cycle before.
func (w *wiring) connectCompute(t *graph.Task, at *progress) {
	room := w.room(t, at)
	if t.Part > 0 {
		w.graph.Connect(room, at.gathered)
		return
	}
	own, neighbour := w.needs(order.Action{Kind: t.Kind, Stage: t.Stage, Microbatch: t.Microbatch})
	deps := [5]int32{own, neighbour, room, at.gathered, w.turnAfter(t)}
	switch {
	case w.Synchronous:
		w.graph.Connect(w.clocks.barrier(w.graph, t, at.actions, deps)...)
	case w.paired:
		w.graph.Connect(append(w.pairNeeds(t, at), deps[:]...)...)
	default:
		w.graph.Connect(deps[:]...)
	}
	at.actions++
}

// turn names the tasks that a unit's all-gather waits for: with overlap the
// use before the last, for only two units have room; otherwise all before it.
func (w *wiring) turn(at *progress) []int32 {
	if w.Sync.Overlap {
		return at.uses[:1]
	}
	return []int32{at.computed, at.closing}
}

// room is the gradient sum that a compute task waits for under ZeRO 2 and 3,
// where whole gradients have room but for one microbatch, or two units. Without
// overlap any task waits for the sums of those before; with it the next one
// that makes gradients does, or under ZeRO 3 the next but one.
func (w *wiring) room(t *graph.Task, at *progress) int32 {
	makes := (t.Kind == graph.Backward || t.Kind == graph.WeightGradient) && w.Sync.active(w.Shape) && len(w.Sync.Buckets[t.Stage]) > 0
	switch {
	case !w.Sync.EveryMicrobatch || t.Part > 0 || w.Sync.Overlap && !makes:
		return graph.None
	case w.Sync.Overlap && w.Sync.Units != nil:
		return at.sums[0]
	}
	return at.closing
}

// needs names the tasks whose results an action uses, None where there are fewer.
func (w *wiring) needs(a order.Action) (own, neighbour int32) {
	here, there := a.Needs(w.Placement.Stages())
	own, neighbour = graph.None, graph.None
	if here.Stage != graph.None {
		own = w.made(here)
	}
	if there.Stage != graph.None {
		neighbour = w.result(w.wholeNeed(there))
	}
	return own, neighbour
}

// result is the task after which the result of an action is at hand on the
// rank of the stage that needs it: the message, if there is one.
func (w *wiring) result(a order.Action) int32 {
	id := w.made(a)
	if _, sent := a.Send(w.Placement); sent {
		id++
	}
	return id
}
