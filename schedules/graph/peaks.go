package graph

// memory finds the peak memory of a rank.
func (x *Statistics) memory(r int, rank *RankSummary) {
	t, level := x.trace, int64(0)
	if t.Persistent != nil {
		level = t.Persistent[r]
	}
	rank.PersistentMemory, rank.PeakMemory = level, level
	if x.Peaks {
		x.peaks = append(x.peaks, peak{})
	}
	if t.Prices == nil {
		for _, e := range t.Memory {
			if int(e.Rank) == r {
				level += e.Bytes
				rank.PeakMemory = max(rank.PeakMemory, level)
			}
		}
		return
	}
	f := &x.front
	f.begin(t, &x.streams, r)
	for e, ok := f.next(); ok; e, ok = f.next() {
		if level += e.Bytes; level > rank.PeakMemory {
			rank.PeakMemory = level
			if x.Peaks {
				x.peaks[r] = peak{true, append(x.peaks[r].live[:0], f.live...)}
			}
		}
	}
	if t.Held != nil {
		rank.PeakMemory += t.Held(rank.PeakMemory - rank.PersistentMemory)
	}
}

// A peak records where the streams are that change the memory of a rank when that is at its
// highest. Streams without a cursor have come to their ends. found is false if the rank
// never holds more than its persistent memory.
type peak struct {
	found bool
	live  []cursor
}

// changes count, by class, the starts and ends of tasks.
type changes struct {
	counts []change
	which  []int32 // the classes whose counts are not 0
}

type change struct{ starts, ends int64 }

func (c *changes) add(class int32, starts, ends int64) {
	one := &c.counts[class]
	if *one == (change{}) {
		c.which = append(c.which, class)
	}
	one.starts, one.ends = one.starts+starts, one.ends+ends
}

// AtPeak calls add for every class with how many of its tasks have changed the memory of a rank
// at their start and at their end before the memory is at its highest for the first time. It
// needs [Statistics.Peaks].
func (x *Statistics) AtPeak(rank int, add func(class int32, starts, ends int64)) {
	r := rank % len(x.streams.own)
	if !x.peaks[r].found {
		return
	}
	x.changes.counts = extended(x.changes.counts, int32(len(x.trace.Graph.Classes)))
	x.changes.which = x.changes.which[:0]
	for _, s := range x.streams.own[r] {
		x.until(s, x.peaks[r].live, false)
	}
	for _, s := range x.streams.incoming[r] {
		x.until(s, x.peaks[r].live, true)
	}
	for _, class := range x.changes.which {
		c := &x.changes.counts[class]
		add(class, c.starts, c.ends)
		*c = change{}
	}
}

// until counts the tasks of a stream before its cursor, or all of them if it has no cursor.
func (x *Statistics) until(s int32, live []cursor, incoming bool) {
	g, end, started := x.trace.Graph, int32(None), false
	for i := range live {
		if c := &live[i]; c.incoming == incoming && g.Class(c.task).Stream == s {
			end, started = c.task, c.ends
			break
		}
	}
	for i := g.First(s); i != end; i = g.Next(i) {
		switch class := g.Rows[i].Class; {
		case incoming:
			x.changes.add(class, 1, 0)
		case g.Classes[class].Kind.Message():
			x.changes.add(class, 0, 1)
		default:
			x.changes.add(class, 1, 1)
		}
	}
	if started && !g.Class(end).Kind.Message() {
		x.changes.add(g.Rows[end].Class, 1, 0)
	}
}
