package sim

import "time"

// A barrier is one task's worth of work for all that wait for it: its tasks are gone through once.
type barrier struct {
	seen int // tasks that are known to have run
	// latest is the release of the task that is last, and runnerUp that of the last of those on
	// other streams.
	latest, runnerUp release
	// One stream waits for the task after those that are seen; the others wait for it: they are a
	// linked list as in Engine.released.
	scout   int32
	waiting time.Duration
}

// A release is when a task releases those that wait for it.
type release struct {
	at           time.Duration
	task, stream int32
}

// add counts a task that has run. Of several that end at the same time the first counts.
func (b *barrier) add(r release) {
	switch {
	case r.at > b.latest.at && r.stream == b.latest.stream:
		b.latest = r
	case r.at > b.latest.at:
		b.latest, b.runnerUp = r, b.latest
	case r.at > b.runnerUp.at && r.stream != b.latest.stream:
		b.runnerUp = r
	}
	b.seen++
}

// passes returns the latest release of a barrier's tasks that are on other streams than the given
// one, and the task that it is of. If one of the tasks is still to run, the stream waits, and passes
// returns false.
func (e *Engine) passes(s, k int32) (at time.Duration, cause int32, ok bool) {
	b, tasks := &e.barriers[k], e.graph.Barriers[k]
	if b.scout != none && b.scout != s {
		e.streams[s].next, b.waiting = b.waiting, time.Duration(-2-s)
		return 0, none, false
	}
	for _, d := range tasks[b.seen:] {
		at := e.released[d]
		if at < 0 {
			b.scout = s
			e.wait(s, d)
			return 0, none, false
		}
		b.add(release{at, d, e.graph.Class(d).Stream})
	}
	waiting := b.waiting
	b.scout, b.waiting = none, unfinished
	e.wake(waiting)
	if b.latest.stream == s {
		return b.runnerUp.at, b.runnerUp.task, true
	}
	return b.latest.at, b.latest.task, true
}
