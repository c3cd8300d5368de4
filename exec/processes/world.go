// Package processes joins the processes of one run. Each of them sees a [World]:
// messages with keys between any two, a few collectives of them, clocks that are
// measured against the first's, and word of a process that is lost, is stuck or has
// ended the run. Messages go over sockets, or over MPI; word of the processes always
// goes over sockets of its own, so that the end of a process is known at once,
// whatever the messages do.
package processes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options say which processes take part, and how they watch each other.
type Options struct {
	// Processes is how many to run, where no launcher has started them; 0 is one.
	Processes int
	// Arguments are those of the copies of this program that are started.
	Arguments []string
	// Ranks is how many ranks there are to divide.
	Ranks int
	// Stall is how long nothing may be heard of a process; 0 waits for ever.
	Stall time.Duration
	// Usage, which may be nil, tells errors of flags and settings from those of a run.
	Usage func(error) bool
}

// A World is the processes of a run, as one of them sees it.
type World struct {
	Rank, Size int // Rank 0 is the first

	began     time.Time // zero of its clock
	options   Options
	processes []Process
	control   *mesh
	wire      wire
	announced func() // a message is to come over the wire; nil where it says so itself
	box       mailbox
	progress  atomic.Uint64
	number    atomic.Uint64 // of what all do
	children  *children     // that the first has started; nil elsewhere
	invited   bool          // the first has started this one
	readers   sync.WaitGroup
	ticked    atomic.Int64 // when it last counted, in ns since it began
	woke      atomic.Int64 // when it last went on after it was stopped; 0 if it was not

	mu    sync.Mutex
	peers []peer // by process, what is known of it
	cause error  // why the run ended early
	mute  bool   // the others have told it in this process's place
	ended chan struct{}
	once  sync.Once // of closing
	left  chan struct{}
	stuck chan struct{} // closed when one of them has found that nothing happens
}

// A wire carries messages between processes.
type wire interface {
	// Send returns when data may be used again.
	Send(to int, key string, data []byte) error
	// Close ends it when all that was sent is on its way.
	Close()
	// Break ends it at once, so that no Send waits. Processes that are stuck are
	// ended, if it can.
	Break(stuck bool)
}

// Processes lists who takes part, by rank.
func (w *World) Processes() []Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.processes)
}

// Divide gives every process a block of the ranks of a graph, the first ones one more
// where they do not divide, and returns where each block begins, and the end. Errors
// name the ranks from then on.
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

// Owners divides likewise, and lists the process of every rank.
func (w *World) Owners(ranks int) (list []int) {
	begins := w.Divide(ranks)
	for k := range w.Size {
		list = append(list, slices.Repeat([]int{k}, begins[k+1]-begins[k])...)
	}
	return list
}

// Send sends a message, and returns when data may be used again. No two messages of
// a process to another have the same key while one is under way.
func (w *World) Send(to int, key string, data []byte) error {
	if err := w.Cause(); err != nil {
		return err
	}
	if to == w.Rank {
		return w.box.put(address{to, key}, slices.Clone(data))
	}
	w.Progress()
	if w.announced != nil { // an error of the connection ends the run anyway
		w.control.links[to].send(frame{kind: ring})
	}
	err := w.wire.Send(to, key, data)
	if err != nil {
		if cause := w.await(found); cause != nil {
			return cause
		}
	}
	return err
}

// Receive waits for the message with that key. It ends early with ctx, or when the
// run has ended, with the cause.
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

// Next numbers what all processes do in the same order, so that its keys are its own.
func (w *World) Next(what string) string { return fmt.Sprint(what, " ", w.number.Add(1)) }

// Progress notes that something has begun or ended here. A message that goes or comes is
// such a thing; and since both touch the same number, what was done here before a message
// went has been done, in the sense of Go's memory model, when an answer to it has come.
func (w *World) Progress() { w.progress.Add(1) }

// Context returns one that also ends with the run: with a *LostError, an *AbortError or
// what this process itself has ended the run with as its cause. An interrupt counts
// only if nothing else ends the run a moment later: who starts processes interrupts
// them all when one is lost.
func (w *World) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-inner.Done():
		case <-w.ended:
			cancel(w.Cause())
		case <-ctx.Done():
			wait := settle
			if w.stopped() { // the launcher ends it for that; word of it may still lie unread
				wait = late
			}
			if cause := w.await(wait); cause != nil {
				cancel(cause)
			}
			cancel(context.Cause(ctx))
		}
	})
	return inner, func() {
		cancel(nil)
		watching.Wait()
	}
}

// settle bounds how long each thing that tells the cause of an end may take, and found how
// long all of them together.
const (
	settle = 200 * time.Millisecond
	found  = 5 * settle
)

// await returns why the run has ended, or nil if it has not after a while.
func (w *World) await(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.ended:
	case <-timer.C:
	}
	return w.Cause()
}

// Cause returns why the run has ended early; nil if it has not.
func (w *World) Cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}

// Abort ends the run in all processes, and tells them why. The first cause counts.
func (w *World) Abort(err error) {
	if lost := (*LostError)(nil); errors.As(err, &lost) {
		w.fail(err, notice{Process: lost.Process.Rank, Lost: true, Silent: lost.Silent, Text: lost.How})
		return
	}
	usage := w.options.Usage != nil && w.options.Usage(err)
	w.fail(err, notice{Process: w.Rank, Text: err.Error(), Interrupted: errors.Is(err, context.Canceled), Usage: usage})
}

// torn ends the run in all processes because of what carries their messages.
func (w *World) torn(err error) { w.fail(err, notice{Process: w.Rank, Text: err.Error()}) }

// fail ends the run here, and passes on why.
func (w *World) fail(err error, n notice) {
	w.mu.Lock()
	first := w.cause == nil
	if first {
		w.cause = err
		close(w.ended)
	}
	w.mu.Unlock()
	if first {
		w.control.tell(n.frame())
		w.wire.Break(false)
	}
}

// Speaks reports whether this process is the one to tell the user what has happened:
// the first, or the next one where that is lost and has not ended the run itself.
func (w *World) Speaks() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	living := slices.IndexFunc(w.peers, func(p peer) bool { return !p.lost || p.ended })
	return living == w.Rank && !w.mute
}
