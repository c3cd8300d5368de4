package graph

// memory finds how much a rank holds at most.
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

// A peak is how far the streams of a rank, and those that send to it, have come when its
// memory is at its highest: they stand at live, or at their ends. It is not found where
// the rank never holds more than what stays.
type peak struct {
	found bool
	live  []cursor
}

// changes count, by class, the tasks that have started and ended.
type changes struct {
	of    []change
	which []int32 // the classes whose counts are not 0
}

type change struct{ starts, ends int64 }

func (c *changes) add(class int32, starts, ends int64) {
	one := &c.of[class]
	if *one == (change{}) {
		c.which = append(c.which, class)
	}
	one.starts, one.ends = one.starts+starts, one.ends+ends
}

// AtPeak tells how many tasks of a class have changed the memory of a rank at their start
// and at their end when that is at its highest, the first time. [Statistics.Peaks] has to
// ask for it.
func (x *Statistics) AtPeak(rank int, add func(class int32, starts, ends int64)) {
	r := rank % len(x.streams.own)
	if !x.peaks[r].found {
		return
	}
	x.changes.of, x.changes.which = reaching(x.changes.of, int32(len(x.trace.Graph.Classes))), x.changes.which[:0]
	for _, s := range x.streams.own[r] {
		x.until(s, x.peaks[r].live, false)
	}
	for _, s := range x.streams.incoming[r] {
		x.until(s, x.peaks[r].live, true)
	}
	for _, class := range x.changes.which {
		c := &x.changes.of[class]
		add(class, c.starts, c.ends)
		*c = change{}
	}
}

// until counts the tasks of a stream that has come as far as one of the cursors tells.
func (x *Statistics) until(s int32, live []cursor, incoming bool) {
	g, end, started := x.trace.Graph, int32(None), false
	for i := range live {
		if c := &live[i]; c.incoming == incoming && g.Like(c.task).Stream == s {
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
	if started && !g.Like(end).Kind.Message() {
		x.changes.add(g.Rows[end].Class, 1, 0)
	}
}
