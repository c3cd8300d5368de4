package graph

import (
	"iter"
	"slices"
	"time"
)

// The memory of a rank in a simulation changes when its tasks start and end, and when messages to
// it start. The tasks of a stream run in order. So the changes of a rank are found in order by
// merging its streams, without making a list of them and sorting it.

// A cursor is a position in a stream.
type cursor struct {
	at   time.Duration // when the next change happens
	task int32         // the task that makes it
	ends bool          // the change is at the end of the task, not at its start
	// incoming means that only starts of messages count, whose memory is on the rank that they
	// go to.
	incoming bool
}

// step moves a cursor to the next change of its stream. It returns false at the end of the stream.
func (t *Trace) step(c *cursor) bool {
	for {
		if c.ends {
			if c.task = t.Graph.Next(c.task); c.task == None {
				return false
			}
		}
		c.ends = !c.ends
		if t.changes(c) {
			return true
		}
	}
}

// changes reports whether memory changes at the cursor, and sets its time.
func (t *Trace) changes(c *cursor) bool {
	p := &t.Prices[t.Graph.Rows[c.task].Class]
	if !c.ends {
		if p.AtStart == 0 || p.Kind.Message() != c.incoming {
			return false
		}
		c.at = t.start(c.task, p)
		return true
	}
	c.at = t.Released[c.task] - p.Delay()
	return p.AtEnd != 0 && !c.incoming
}

// earlier orders changes at the same time: ends of tasks that take time come first, then changes
// are in the order of their tasks.
func (t *Trace) earlier(a, b *cursor) bool {
	if x, y := t.endsWork(a), t.endsWork(b); x != y {
		return x
	}
	return a.task < b.task
}

func (t *Trace) endsWork(c *cursor) bool {
	return c.ends && t.Prices[t.Graph.Rows[c.task].Class].Busy > 0
}

// bytes returns the change at a cursor.
func (t *Trace) bytes(c *cursor) int64 {
	p := &t.Prices[t.Graph.Rows[c.task].Class]
	if c.ends {
		return p.AtEnd
	}
	return p.AtStart
}

// A front holds the cursors in all streams that change the memory of a rank.
type front struct {
	trace *Trace
	live  []cursor // without those that have come to the end of their streams
	first int      // index of the one with the earliest change
}

// begin sets the cursors to the first changes of a rank.
func (f *front) begin(t *Trace, streams *rankStreams, r int) {
	f.trace, f.live = t, f.live[:0]
	for k, list := range [2][]int32{streams.own[r], streams.incoming[r]} {
		for _, s := range list {
			if k == 0 && streams.works[s]&takesMemory == 0 {
				continue
			}
			c := cursor{task: t.Graph.First(s), incoming: k == 1}
			if c.task != None && (t.changes(&c) || t.step(&c)) {
				f.live = append(f.live, c)
			}
		}
	}
	f.find()
}

// find sets first.
func (f *front) find() {
	f.first = 0
	for k := 1; k < len(f.live); k++ {
		a, b := &f.live[k], &f.live[f.first]
		if a.at < b.at || a.at == b.at && f.trace.earlier(a, b) {
			f.first = k
		}
	}
}

// next returns the earliest remaining change, or false after the last.
func (f *front) next() (e MemoryEvent, ok bool) {
	if len(f.live) == 0 {
		return e, false
	}
	c := &f.live[f.first]
	e = MemoryEvent{At: c.at, Bytes: f.trace.bytes(c), Task: c.task}
	if !f.trace.step(c) {
		last := len(f.live) - 1
		f.live[f.first] = f.live[last]
		f.live = f.live[:last]
	}
	f.find()
	return e, true
}

// ChangesByRank yields every rank with its changes of memory, in order of time. Those of a simulation
// include what the process holds. Where the first replica stands for all, only its ranks are yielded.
func (t *Trace) ChangesByRank() iter.Seq2[int32, iter.Seq[MemoryEvent]] {
	ranks := t.Graph.Ranks() / t.Graph.Replicas()
	if t.Prices == nil {
		byRank := make([][]MemoryEvent, ranks)
		for _, e := range t.Memory {
			byRank[e.Rank] = append(byRank[e.Rank], e)
		}
		return func(yield func(int32, iter.Seq[MemoryEvent]) bool) {
			for r := 0; r < ranks && yield(int32(r), slices.Values(byRank[r])); r++ {
			}
		}
	}
	return func(yield func(int32, iter.Seq[MemoryEvent]) bool) {
		var streams rankStreams
		var f front
		streams.reset(t, ranks)
		for r := 0; r < ranks && yield(int32(r), f.changes(t, &streams, r)); r++ {
		}
	}
}

// changes yields the changes of memory of a rank, with what the process holds.
func (f *front) changes(t *Trace, streams *rankStreams, r int) iter.Seq[MemoryEvent] {
	return func(yield func(MemoryEvent) bool) {
		taken := int64(0)
		f.begin(t, streams, r)
		for e, ok := f.next(); ok; e, ok = f.next() {
			before := taken
			taken += e.Bytes
			if e.Rank = int32(r); t.Held != nil {
				e.Bytes += t.Held(taken) - t.Held(before)
			}
			if !yield(e) {
				return
			}
		}
	}
}

// MemoryChanges counts the changes of memory of all ranks.
func (t *Trace) MemoryChanges() int {
	n := len(t.Memory)
	if t.Prices == nil {
		return n
	}
	for i, count := range t.Graph.Counts() {
		if t.Prices[i].AtStart != 0 {
			n += count
		}
		if t.Prices[i].AtEnd != 0 {
			n += count
		}
	}
	return n * t.Graph.Replicas()
}
