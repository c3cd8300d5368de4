package trace

import (
	"fmt"
	"time"

	"psim/results/tracecsv"
)

// levels are those of a rank's memory, which its events take.
type levels struct {
	track uint64 // of the counter; 0 for a rank without memory
	list  []tracecsv.MemoryPoint
	taken []bool
	next  int // the first that an event of the stream may take
}

// counter describes the counter of a rank's memory, if it uses any.
func (p *perfetto) counter(curve tracecsv.MemoryCurve) levels {
	if curve.Peak() == 0 {
		return levels{}
	}
	p.last++
	unit := message(nil).number(counterUnit, unitBytes)
	p.describe(message(nil).number(trackID, p.last).text(trackName, fmt.Sprintf("rank %d memory", curve.Rank)).
		number(trackParent, p.process(int32(curve.Rank))).nested(trackCounter, unit).number(trackRank, p.last))
	list := curve.Levels()
	return levels{track: p.last, list: list, taken: make([]bool, len(list))}
}

// take returns the level that begins at a time, unless an event has taken it. Times of a stream do not fall.
func (l *levels) take(now time.Duration) (bytes int64, changes bool) {
	for l.next < len(l.list) && l.list[l.next].At < now {
		l.next++
	}
	if l.next == len(l.list) || l.list[l.next].At != now || l.taken[l.next] {
		return 0, false
	}
	l.taken[l.next] = true
	return l.list[l.next].Bytes, true
}

// rest writes the levels that no event has taken.
func (l *levels) rest(p *perfetto) {
	for i, point := range l.list {
		if !l.taken[i] {
			p.body = p.body[:0].number(eventType, counterValue).
				number(eventTrack, l.track).number(eventValue, uint64(point.Bytes))
			p.event(point.At, namesUsed, p.body)
		}
	}
}
