package graph

import "time"

// A cursor is how far a stream has been read.
type cursor struct {
	at     time.Duration
	i, end int32
	ends   bool // the next event is an end
	// incoming: only the starts of messages count, which are to another rank's.
	incoming bool
	launches bool // what counts is the time from when a task was ready to its start
}

// next moves a cursor to its next event that changes the memory of a rank; false at the
// end.
func (x *Statistics) next(c *cursor) bool {
	p := x.packed
	for ; c.i < c.end; c.i++ {
		class := &p.Classes[p.Tasks[c.i].Class]
		if !c.ends {
			c.ends = true
			if class.AtStart != 0 && class.Kind.Message() == c.incoming {
				c.at = p.Tasks[c.i].Start
				return true
			}
		}
		c.ends = false
		if !c.incoming && class.AtEnd != 0 {
			c.at = p.Tasks[c.i].Start + class.Busy
			c.i++
			return true
		}
	}
	return false
}

// event returns what a cursor stands at: next has gone one task further for an end.
func (c *cursor) event() (task int32, end bool) {
	if c.ends {
		return c.i, false
	}
	return c.i - 1, true
}

// earlier orders events at the same time, as Trace.SortMemory does.
func (x *Statistics) earlier(a, b *cursor) bool {
	key := func(c *cursor) (phase int, place int64) {
		i, end := c.event()
		phase = 1
		if end && x.packed.Classes[x.packed.Tasks[i].Class].Busy > 0 {
			phase = 0
		}
		return phase, x.packed.Place(i)
	}
	p, i := key(a)
	q, j := key(b)
	return p < q || p == q && i < j
}

// memory finds how much a rank holds at most.
func (x *Statistics) memory(r int32, rank *RankSummary) {
	p, level := x.packed, int64(0)
	if p.Persistent != nil {
		level = p.Persistent[r]
	}
	rank.PersistentMemory, rank.PeakMemory = level, level
	if x.Peaks {
		x.peaks = append(x.peaks, peak{})
	}
	live := x.begin(r)
	for len(live) > 0 {
		k := 0
		for j := 1; j < len(live); j++ {
			if live[j].at < live[k].at || live[j].at == live[k].at && x.earlier(&live[j], &live[k]) {
				k = j
			}
		}
		i, end := live[k].event()
		if c := &p.Classes[p.Tasks[i].Class]; end {
			level += c.AtEnd
		} else {
			level += c.AtStart
		}
		more := x.next(&live[k])
		if !more {
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
		}
		if level > rank.PeakMemory {
			rank.PeakMemory = level
			if x.Peaks {
				x.peaks[r] = peak{true, append(x.peaks[r].live[:0], live...)}
			}
		}
	}
}

// begin puts cursors at the first events of a rank.
func (x *Statistics) begin(r int32) []cursor {
	p := x.packed
	live := x.cursors[:0]
	add := func(s int32, incoming bool) {
		c := cursor{i: p.Begin[s], end: p.Begin[s+1], incoming: incoming}
		if x.next(&c) {
			live = append(live, c)
		}
	}
	for s := p.First[r]; s < p.First[r+1]; s++ {
		add(s, false)
	}
	for _, s := range x.incoming[r] {
		add(s, true)
	}
	x.cursors = live
	return live
}

// A peak is how far the streams of a rank, and those that send to it, have come when its
// memory is at its highest: they stand at live, or at their ends. It is not found where
// nothing exceeds what lasts.
type peak struct {
	found bool
	live  []cursor
}

// AtPeak tells how many tasks of a class have changed the memory of a rank at their start
// and at their end when that is at its highest, the first time. [Statistics.Peaks] has to
// ask for it.
func (x *Statistics) AtPeak(rank int, add func(class int32, starts, ends int64)) {
	p := x.packed
	r := rank % (len(p.First) - 1)
	if !x.peaks[r].found {
		return
	}
	for len(x.changes) < len(p.Classes) {
		x.changes = append(x.changes, changes{})
	}
	x.changed = x.changed[:0]
	for s := p.First[r]; s < p.First[r+1]; s++ {
		x.count(s, x.peaks[r].live, false)
	}
	for _, s := range x.incoming[r] {
		x.count(s, x.peaks[r].live, true)
	}
	for _, class := range x.changed {
		c := &x.changes[class]
		add(class, c.starts, c.ends)
		*c = changes{}
	}
}

// changes count the tasks of a class that have started and ended.
type changes struct{ starts, ends int64 }

// count adds those of a stream that has come as far as the cursors tell.
func (x *Statistics) count(s int32, live []cursor, incoming bool) {
	p, last, started := x.packed, x.packed.Begin[s+1], false
	for i := range live {
		if c := &live[i]; c.end == last && c.incoming == incoming {
			last, started = c.event()
			break
		}
	}
	note := func(class, starts, ends int32) {
		c := &x.changes[class]
		if *c == (changes{}) {
			x.changed = append(x.changed, class)
		}
		c.starts, c.ends = c.starts+int64(starts), c.ends+int64(ends)
	}
	for i := p.Begin[s]; i < last; i++ {
		switch class := p.Tasks[i].Class; {
		case incoming:
			note(class, 1, 0)
		case p.Classes[class].Kind.Message():
			note(class, 0, 1)
		default:
			note(class, 1, 1)
		}
	}
	if started && !p.Classes[p.Tasks[last].Class].Kind.Message() {
		note(p.Tasks[last].Class, 1, 0)
	}
}
