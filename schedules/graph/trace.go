package graph

import "time"

// A Span is when a task ran.
type Span struct{ Start, End time.Duration }

// Duration is the length of the span.
func (s Span) Duration() time.Duration { return s.End - s.Start }

// A MemoryEvent changes the memory in use on a rank.
type MemoryEvent struct {
	At    time.Duration
	Bytes int64
	Rank  int32
	Task  int32
}

// A Trace is a graph that has been run, in simulation or for real. A simulated trace has the price
// of every class and one time for every task, from which everything else is computed. A measured
// trace has the span of every task.
type Trace struct {
	Graph *Graph
	// Persistent is the memory that every rank holds during the whole step.
	Persistent []int64

	// Spans[i] is when task i ran, in a measured trace.
	Spans []Span
	// Ready[i] is when task i had everything it depends on and was at the head of its stream, in
	// a measured trace; nil if unknown. The time from then to the start of its span was spent on
	// starting it.
	Ready []time.Duration
	// Memory has the measured changes of memory, sorted by time.
	Memory []MemoryEvent

	// Prices has the price of every class, in a simulated trace.
	Prices []Price
	// Released[i] is when tasks that depend on task i may start: its end plus its delay.
	Released []time.Duration
	// Longer has how much longer tasks took than their price, because they shared a link.
	Longer map[int32]time.Duration
	// Cause[i] is the task whose end let task i start: a dependency, or the
	// one before it in a queue; None at time zero. It is nil where every task starts as soon as
	// it is ready: CauseOf then computes it.
	Cause []int32
	// Host describes how the tasks were launched; nil where launching cost nothing.
	Host *Host
	// Held returns the bytes that a process holds in addition to those that its tasks have
	// taken, such as the reserve of an allocator. Nil means 0.
	Held func(taken int64) int64
}

// Span returns when a task ran.
func (t *Trace) Span(i int32) Span {
	if t.Spans != nil {
		return t.Spans[i]
	}
	p := &t.Prices[t.Graph.Rows[i].Class]
	return Span{t.start(i, p), t.Released[i] - p.Delay()}
}

// start returns when a task of a simulation started.
func (t *Trace) start(i int32, p *Price) time.Duration {
	at := t.Released[i] - p.Release
	if p.Stretched {
		at -= t.Longer[i]
	}
	return at
}

// Inner returns the communication inside a task; nil if there is none, or if it is unknown.
func (t *Trace) Inner(i int32) *Inner {
	if t.Prices == nil {
		return nil
	}
	return t.Prices[t.Graph.Rows[i].Class].Inner
}

// End is when the last task ended.
func (t *Trace) End() time.Duration {
	var end time.Duration
	if t.Spans == nil { // the last task of every stream ends last
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

// KnowsReady reports whether the trace says when tasks were ready to be started. A simulation
// without a host does not: starting a task takes no time there.
func (t *Trace) KnowsReady() bool { return t.Ready != nil || t.Host != nil }

// ReadyAt returns when a task was ready, if the trace [Trace.KnowsReady]. For a task that hosts do
// not launch this is its start.
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

// CauseOf returns the task whose end let task i start, or None.
func (t *Trace) CauseOf(i int32) int32 {
	if t.Cause != nil {
		return t.Cause[i]
	}
	_, cause := t.due(i, t.Graph.Before(i))
	return cause
}

// due returns when a simulated task was at the head of its stream and had everything it depends
// on, and the task that was last to end. Of several that end at the same time this is the one
// before it on its stream, if that is among them, or else the first dependency.
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

// A Sum adds up tasks that are alike.
type Sum struct {
	Task  *Task
	Count int64
	Time  time.Duration
	Inner *Inner // of one task
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
	for i, longer := range t.Longer {
		list[g.Rows[i].Class].Time += longer
	}
	return list
}
