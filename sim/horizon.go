package sim

import (
	"errors"
	"math"
	"time"

	"psim/schedules/graph"
)

// ErrLate says that a step takes longer than its horizon.
var ErrLate = errors.New("the step takes longer than was of interest")

// A Horizon ends a run as soon as it is certain that the step takes longer. While a rank has work to do, the step
// takes at least until the rank has done the rest of it without standing still. So a run is late when the
// rank has stood still for longer than the horizon leaves.
type Horizon struct {
	At time.Duration // 0 for none
	// After is, by rank of a replica, how long the step takes at least from when the rank has computed all passes.
	After []time.Duration
	// Wait, which may be nil, returns how long computing stands still at least besides for a pass of a class.
	Wait func(t *graph.Task) time.Duration

	work []time.Duration // by class of what is computed: its time, and the Wait; empty without a horizon
	idle []time.Duration // by stream: how long it may stand still
}

// reset prepares the horizon for a graph.
func (h *Horizon) reset(g *graph.Graph, prices []graph.Price) {
	h.work = h.work[:0]
	if h.At == 0 {
		return
	}
	h.work = filled(h.work, len(prices), 0)
	h.idle = filled(h.idle, len(g.Streams), math.MaxInt64)
	for class, n := range g.Counts() {
		t, p := &g.Classes[class], &prices[class]
		if p.Update || p.Group != none || p.Link > 0 || !t.Kind.Compute() {
			continue
		}
		h.work[class] = p.Busy
		if h.Wait != nil {
			h.work[class] += h.Wait(t)
		}
		if h.idle[t.Stream] == math.MaxInt64 {
			h.idle[t.Stream] = h.At - h.After[int(t.Rank)%len(h.After)]
		}
		h.idle[t.Stream] -= time.Duration(n) * h.work[class]
	}
}

// work notes work that a stream has done at a time.
func (s *stream) work(work, at time.Duration) {
	if work > 0 {
		s.worked += work
		s.stood = at - s.worked
	}
}

// late reports whether a stream has stood still for too long.
func (h *Horizon) late(s int32, idle time.Duration) bool { return len(h.work) > 0 && idle > h.idle[s] }
