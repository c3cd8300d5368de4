package exec

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"psim/exec/programs"
	"psim/schedules/graph"
)

// A ledger records when the tensors of devices come and go.
type ledger struct {
	devices []*programs.Device
	begin   time.Time
	held    []int64 // by rank, when it began

	mu     sync.Mutex
	events []graph.MemoryEvent
}

func watchLedger(devices []*programs.Device, begin time.Time) *ledger {
	l := &ledger{devices: devices, begin: begin}
	for rank, d := range devices {
		l.held = append(l.held, d.Bytes())
		d.Observe(func(change int64) {
			l.mu.Lock()
			l.events = append(l.events, graph.MemoryEvent{At: time.Since(begin), Bytes: change, Rank: int32(rank), Task: graph.None})
			l.mu.Unlock()
		})
	}
	return l
}

// end stops recording and returns the changes, by time, and what was held
// before them.
func (l *ledger) end() (events []graph.MemoryEvent, persistent []int64) {
	for _, d := range l.devices {
		d.Observe(nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.events, func(a, b graph.MemoryEvent) int { return cmp.Compare(a.At, b.At) })
	return l.events, l.held
}
