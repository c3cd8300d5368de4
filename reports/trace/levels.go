package trace

import (
	"fmt"
	"time"

	"psim/results/tracecsv"
)

// levels are those of a rank's memory, which events take along.
type levels struct {
	track uint64 // of the counter; 0 for a rank without memory
	list  []tracecsv.MemoryPoint
	taken []bool
}

// A reader goes through the levels of a rank while the tasks of a stream are written.
type reader struct {
	*levels
	rank int32
	next int // the first level that an event may take
}

// levelsOf returns a reader of the levels of a rank in the replica whose tasks are written.
func (p *perfetto) levelsOf(rank int32) reader {
	return reader{levels: &p.memory[int(rank)%len(p.memory)], rank: rank}
}

// levels sets the memory of the ranks of a replica, whose first rank is given, and describes their counters.
func (p *perfetto) levels(curves []tracecsv.MemoryCurve, first int) {
	if p.memory == nil {
		p.memory = make([]levels, len(curves))
		for i, curve := range curves {
			if curve.Peak() != 0 {
				p.memory[i].list = curve.Levels()
			}
			p.memory[i].taken = make([]bool, len(p.memory[i].list))
		}
	}
	for i, curve := range curves {
		if clear(p.memory[i].taken); curve.Peak() != 0 {
			p.memory[i].track = p.counter(first + curve.Rank)
		}
	}
}

// counter describes the counter of a rank's memory, and returns its track.
func (p *perfetto) counter(rank int) uint64 {
	p.last++
	unit := message(nil).number(counterUnit, unitBytes)
	p.describe(message(nil).number(trackID, p.last).text(trackName, fmt.Sprintf("rank %d memory", rank)).
		number(trackParent, p.process(int32(rank))).nested(trackCounter, unit).number(trackRank, p.last))
	return p.last
}

// take returns the level that begins at a time, unless an event has taken it. Times of a stream do not fall.
func (r *reader) take(now time.Duration) (bytes int64, changes bool) {
	for r.next < len(r.list) && r.list[r.next].At < now {
		r.next++
	}
	if r.next == len(r.list) || r.list[r.next].At != now || r.taken[r.next] {
		return 0, false
	}
	r.taken[r.next] = true
	return r.list[r.next].Bytes, true
}

// at adds the track of an event, or to an event of the assumed one the levels that begin then: its rank's,
// and those of the rank that gets its messages. It returns the counters of the levels, if they are not assumed.
func (p *perfetto) at(now time.Duration, event message, track uint64) (message, []uint64) {
	if track != 0 {
		return event.number(eventTrack, track), nil
	}
	bytes, changes := p.own.take(now)
	if changes {
		event = event.number(eventLevels, uint64(bytes))
	}
	if p.peer.levels == nil {
		return event, nil
	}
	received, arrives := p.peer.take(now)
	if !arrives {
		return event, nil
	}
	event, p.counters = event.number(eventLevels, uint64(received)), p.counters[:0]
	if changes {
		p.counters = append(p.counters, p.own.track)
	}
	p.counters = append(p.counters, p.peer.track)
	return event, p.counters
}

// rest writes the levels that no event has taken.
func (l *levels) rest(p *perfetto) {
	for i, point := range l.list {
		if !l.taken[i] {
			p.body = p.body[:0].number(eventType, counterValue).
				number(eventTrack, l.track).number(eventValue, uint64(point.Bytes))
			p.event(point.At, p.body)
		}
	}
}
