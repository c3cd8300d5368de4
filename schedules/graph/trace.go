package graph

import "time"

// A Span is when a task ran.
type Span struct{ Start, End time.Duration }

// Duration is the length of the span.
func (s Span) Duration() time.Duration { return s.End - s.Start }

// A MemoryEvent is a change of the memory in use on a rank.
type MemoryEvent struct {
	At    time.Duration
	Bytes int64
	Rank  int32
	Task  int32
}

// A Trace is a graph that has been run, in simulation or for real. A simulation has prices and a
// time for every task, and the rest follows from these. What was measured has spans.
type Trace struct {
	Graph *Graph
	// Persistent is the memory of every rank outside the events.
	Persistent []int64

	// Spans[i] is when task i ran, where that was measured.
	Spans []Span
	// Ready[i] is when task i had everything it depends on and its turn on its
	// stream; what is left until its span starts went into starting it. Nil if
	// not known, and in a simulation.
	Ready []time.Duration
	// Memory has the changes that were measured, sorted by time.
	Memory []MemoryEvent

	// Prices are those of the classes, in a simulation.
	Prices []Price
	// Released[i] is when what depends on task i may go on: at its end, or after a delay.
	Released []time.Duration
	// Cause[i] is the task whose end let task i start: a dependency, or the
	// one before it in a queue; None at time zero. Nil where every task starts as soon as it is
	// ready.
	Cause []int32
	// Host is what launched the tasks of a simulation; nil where that cost nothing.
	Host *Host
	// Held returns what a process holds beyond the bytes that its tasks have taken. Nil means
	// nothing.
	Held func(taken int64) int64
}

// Span tells when a task ran.
func (t *Trace) Span(i int32) Span {
	if t.Spans != nil {
		return t.Spans[i]
	}
	p := &t.Prices[t.Graph.Rows[i].Class]
	start := t.Released[i] - p.Release
	return Span{start, start + p.Busy}
}

// Inner is the communication within a task; nil where there is none, or it is not known.
func (t *Trace) Inner(i int32) *Inner {
	if t.Prices == nil {
		return nil
	}
	return t.Prices[t.Graph.Rows[i].Class].Inner
}

// End is when the last task ended.
func (t *Trace) End() time.Duration {
	var end time.Duration
	if t.Spans == nil { // streams are in order
		for s := range t.Graph.Streams {
			if i := t.Graph.Last(int32(s)); i != None {
				end = max(end, t.Span(i).End)
			}
		}
		return end
	}
	for i := range t.Spans {
		end = max(end, t.Spans[i].End)
	}
	return end
}

// KnowsReady reports whether the trace knows when tasks were ready. In a simulation without a
// host a task is ready when it starts, unless it waits for others of its group or link.
func (t *Trace) KnowsReady() bool { return t.Ready != nil || t.Host != nil }

// ReadyAt tells when a task was ready, in a trace that knows. Of tasks that no host launches it is
// when they started.
func (t *Trace) ReadyAt(i int32) time.Duration {
	if t.Ready != nil {
		return t.Ready[i]
	}
	if !t.Prices[t.Graph.Rows[i].Class].Launched() {
		return t.Span(i).Start
	}
	ready, _ := t.due(i, t.Graph.Before(i))
	return ready
}

// CauseOf returns the task that let another one start, or None.
func (t *Trace) CauseOf(i int32) int32 {
	if t.Cause != nil {
		return t.Cause[i]
	}
	_, cause := t.due(i, t.Graph.Before(i))
	return cause
}

// due tells when a task of a simulation had its turn and what it waits for, and the task that this
// was due to: the one before it on its stream, if none of the others was later.
func (t *Trace) due(i, before int32) (ready time.Duration, cause int32) {
	cause = before
	if before != None {
		ready = t.Span(before).End
	}
	for _, d := range t.Graph.Deps(i) {
		if at := t.Released[d]; at > ready {
			ready, cause = at, d
		}
	}
	return ready, cause
}

// A Sum is what tasks that are alike take together.
type Sum struct {
	Task  *Task
	Count int64
	Time  time.Duration
	Inner *Inner // of each of them
}

// Sums adds up the tasks of a simulation by class, and lists those of a measured trace one by one.
func (t *Trace) Sums() []Sum {
	g := t.Graph
	if t.Prices == nil {
		list := make([]Sum, g.Len())
		for i := range list {
			task := g.Task(int32(i))
			list[i] = Sum{Task: &task, Count: 1, Time: t.Spans[i].Duration()}
		}
		return list
	}
	list := make([]Sum, len(g.Classes))
	for i, n := range g.Counts() {
		p := &t.Prices[i]
		list[i] = Sum{&g.Classes[i], int64(n), time.Duration(n) * p.Busy, p.Inner}
	}
	return list
}
