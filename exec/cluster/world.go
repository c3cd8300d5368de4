// Package cluster joins the processes of one run. Each of them has a [World]: messages with
// keys between any two processes, a few collectives of such messages, clocks that are measured
// against the first process's clock, and news of a process that is lost, that is stuck or that
// has ended the run.
//
// Messages go over sockets or over MPI. News of the processes always goes over sockets of its
// own, so that the end of a process is known at once, whatever the messages do.
package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options say which processes take part, and how they watch each other.
type Options struct {
	// Processes is how many to start if no launcher has started them; 0 is one.
	Processes int
	// Arguments are the command line of the copies of this program.
	Arguments []string
	// Ranks is the number of ranks to divide among the processes.
	Ranks int
	// Stall is how long a process may be silent before it counts as lost; 0 is for ever.
	Stall time.Duration
	// Place is where to meet processes that were started one by one; nil if there are none.
	Place *Rendezvous
	// Waiting, which may be nil, is called with what this process waits for before the run.
	Waiting func(what string)
	// Version is the version of psim, which must be the same in all processes.
	Version string
	// Usage, which may be nil, reports whether an error is about flags or settings.
	Usage func(error) bool
}

// A World is the processes of a run, as one of them sees it.
type World struct {
	Rank, Size int // the first process has rank 0

	began     time.Time // zero of this process's clock
	options   Options
	processes []Member
	control   *mesh
	wire      wire
	announced func() // tells the wire that a message is coming; nil if it needs no telling
	box       mailbox
	progress  atomic.Uint64
	number    atomic.Uint64 // of the last key that Next made
	children  *children     // the processes that the first one has started; nil elsewhere
	invited   bool          // the first process has started this one
	apart     bool          // processes were started one by one, each by its own user
	readers   sync.WaitGroup
	lastTick  atomic.Int64 // when watch last ran, in ns since began
	resumed   atomic.Int64 // when this process last continued after it was stopped, in ns since began; 0 if never

	mu       sync.Mutex
	peers    []peer        // by process
	cause    error         // why the run ended early
	silenced bool          // the others have lost this process, and tell the user themselves
	ended    chan struct{} // closed when the run ends early
	once     sync.Once     // for Close
	left     chan struct{} // closed when this process leaves
	stuck    chan struct{} // closed when a process finds that nothing happens in any
}

// A wire carries messages between processes.
type wire interface {
	// Send returns when data may be used again.
	Send(to int, key string, data []byte) error
	// Close ends the wire once everything has been sent.
	Close()
	// Break ends the wire at once, so that no Send blocks. If it can, it ends processes that
	// are stuck.
	Break(stuck bool)
}

// Processes lists the processes of the run, by rank.
func (w *World) Processes() []Member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.processes)
}

// Divide gives every process a block of the ranks of a graph; the first ones get one more if
// the ranks do not divide evenly. It returns where each block begins, and the end. From then
// on, errors name the ranks of a process.
func (w *World) Divide(ranks int) []int {
	begins := make([]int, w.Size+1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.Size {
		n := ranks / w.Size
		if k < ranks%w.Size {
			n++
		}
		begins[k+1] = begins[k] + n
		own := make([]int, n)
		for i := range own {
			own[i] = begins[k] + i
		}
		w.processes[k].Ranks = own
	}
	return begins
}

// Owners divides the ranks as Divide does, and lists the process of every rank.
func (w *World) Owners(ranks int) (list []int) {
	begins := w.Divide(ranks)
	for k := range w.Size {
		list = append(list, slices.Repeat([]int{k}, begins[k+1]-begins[k])...)
	}
	return list
}

// Send sends a message, and returns when data may be used again. A process must not send two
// messages with the same key to another one before the first is received.
func (w *World) Send(to int, key string, data []byte) error {
	if err := w.Cause(); err != nil {
		return err
	}
	if to == w.Rank {
		return w.box.put(address{to, key}, slices.Clone(data))
	}
	w.Progress()
	if w.announced != nil { // a broken connection ends the run anyway
		w.control.links[to].send(frame{kind: announce})
	}
	err := w.wire.Send(to, key, data)
	if err != nil {
		if cause := w.await(endWait); cause != nil {
			return cause
		}
	}
	return err
}

// Receive waits for the message with a key. It ends early with ctx, or with the run; the error
// is then the cause.
func (w *World) Receive(ctx context.Context, from int, key string) ([]byte, error) {
	a := address{from, key}
	slot := w.box.slot(a)
	select {
	case data := <-slot:
		w.box.drop(a)
		w.Progress()
		return data, nil
	case <-w.ended:
		return nil, w.Cause()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Next makes a key that is not used twice. All processes must call it in the same order.
func (w *World) Next(what string) string { return fmt.Sprint(what, " ", w.number.Add(1)) }

// Progress notes that something has begun or ended in this process, such as a message that was
// sent or received. All calls touch the same number. So, in the terms of Go's memory model,
// what this process did before it sent a message happens before it receives the answer.
func (w *World) Progress() { w.progress.Add(1) }

// causeWait bounds how long one piece of news about the end of a run may take, and endWait how
// long all of them together.
const (
	causeWait = 200 * time.Millisecond
	endWait   = 5 * causeWait
)
