package train

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"psim/exec/backend"
	"psim/schedules/graph"
)

// A ledger records when the tensors of devices come and go.
type ledger struct {
	devices []*backend.LocalDevice
	begin   time.Time
	held    []int64 // by rank, when it began

	mu     sync.Mutex
	events []graph.MemoryEvent
}

// watchLedger begins a ledger of devices.
func watchLedger(devices []*backend.LocalDevice, begin time.Time) *ledger {
	l := &ledger{devices: devices, begin: begin}
	for rank, d := range devices {
		if d == nil {
			l.held = append(l.held, 0) // of another process
			continue
		}
		l.held = append(l.held, d.Bytes())
		d.Observe(func(change int64) {
			l.mu.Lock()
			l.events = append(l.events,
				graph.MemoryEvent{At: time.Since(begin), Bytes: change, Rank: int32(rank), Task: graph.None})
			l.mu.Unlock()
		})
	}
	return l
}

// end stops recording. It returns the changes, by time, and what was held before them.
func (l *ledger) end() (events []graph.MemoryEvent, persistent []int64) {
	for _, d := range l.devices {
		if d != nil {
			d.Observe(nil)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.events, func(a, b graph.MemoryEvent) int { return cmp.Compare(a.At, b.At) })
	return l.events, l.held
}
