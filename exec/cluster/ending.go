package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A notice says why a run ends.
type notice struct {
	Process int           // whose fault it is
	Lost    bool          // the process has gone, or does not answer
	Silent  time.Duration // for how long it was silent
	Text    string

	Interrupted bool // the user interrupted it
	Usage       bool // flags or settings are wrong
}

func (n notice) frame() frame {
	data, _ := json.Marshal(n) // cannot fail on plain fields
	return frame{kind: abort, data: data}
}

// handleAbort ends the run because another process says so.
func (w *World) handleAbort(from int, data []byte) {
	var n notice
	if err := json.Unmarshal(data, &n); err != nil || n.Process < 0 || n.Process >= w.Size {
		n = notice{Process: from, Text: "for an unknown reason"}
	}
	if !n.Lost && n.Process == from {
		w.mu.Lock()
		w.peers[from].ended = true
		w.mu.Unlock()
	}
	switch {
	case n.Lost && n.Process == w.Rank: // the other processes report this to the user
		w.mu.Lock()
		w.silenced = true
		w.mu.Unlock()
		n.Text = fmt.Sprintf("the other processes heard nothing from it for %v and ended the run", n.Silent)
	case n.Lost:
		w.loseMember(n.Process, n.Silent, n.Text)
		return
	}
	w.fail(&AbortError{w.Processes()[n.Process], n.Text, n.Interrupted, n.Usage}, n)
}

// loseMember ends the run because a process has gone or does not answer.
func (w *World) loseMember(k int, silent time.Duration, how string) {
	w.mu.Lock()
	w.peers[k].lost = true
	w.mu.Unlock()
	if silent == 0 && w.children.interrupted() { // the interrupt went to all processes
		w.Abort(context.Canceled)
		return
	}
	if silent == 0 && how == "" {
		how = w.children.exitState(k)
	}
	w.Abort(&LostError{Process: w.Processes()[k], Silent: silent, How: how})
}

// connectionEnded ends the run if a connection for messages ends before the process on the
// other side leaves. The control connection says why it ended.
func (w *World) connectionEnded(k int, why error) {
	select {
	case <-w.left:
		return
	case <-w.ended:
		return
	case <-time.After(endWait):
	}
	w.mu.Lock()
	left := w.peers[k].left
	w.mu.Unlock()
	if !left {
		w.failMessages(fmt.Errorf("the connection to %s has ended: %w", w.Processes()[k], why))
	}
}

// Context returns a context that also ends with the run. Its cause is then a *LostError, an
// *AbortError, or the error with which this process ended the run. An interrupt counts only if
// nothing else ends the run a moment later, because a launcher interrupts all its processes
// when one of them is lost.
func (w *World) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-inner.Done():
		case <-w.ended:
			cancel(w.Cause())
		case <-ctx.Done():
			wait := causeWait
			if w.wasStopped() { // the notice that the others ended the run without it may still be unread
				wait = lateAfter
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

// await waits a while for the run to end, and returns the cause; nil if it goes on.
func (w *World) await(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.ended:
	case <-timer.C:
	}
	return w.Cause()
}

// Cause returns why the run ended early; nil while it goes on.
func (w *World) Cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}

// Abort ends the run in all processes and tells them why. The first cause counts.
func (w *World) Abort(err error) {
	if lost := (*LostError)(nil); errors.As(err, &lost) {
		w.fail(err, notice{Process: lost.Process.Rank, Lost: true, Silent: lost.Silent, Text: lost.How})
		return
	}
	w.fail(err, notice{
		Process: w.Rank, Text: err.Error(), Interrupted: errors.Is(err, context.Canceled),
		Usage: w.options.Usage != nil && w.options.Usage(err),
	})
}

// failMessages ends the run in all processes because messages cannot be carried.
func (w *World) failMessages(err error) { w.fail(err, notice{Process: w.Rank, Text: err.Error()}) }

// fail ends the run in this process, and tells the others why.
func (w *World) fail(err error, n notice) {
	w.mu.Lock()
	first := w.cause == nil
	if first {
		w.cause = err
		close(w.ended)
	}
	w.mu.Unlock()
	if first {
		w.control.sendAll(n.frame())
		w.wire.Break(false)
	}
}

// Speaks reports whether this process is the one that tells the user what happened: the first,
// or the next one if the first is lost before it could end the run itself. Processes that were
// started one by one all do.
func (w *World) Speaks() bool {
	if w.apart {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	living := slices.IndexFunc(w.peers, func(p peer) bool { return !p.lost || p.ended })
	return living == w.Rank && !w.silenced
}

// isTooLong reports whether the other processes count a process as lost that was silent for d.
func (w *World) isTooLong(d time.Duration) bool { return w.options.Stall > 0 && d >= w.options.Stall }

// wasStopped reports whether this process was stopped until a moment ago. The others may count
// it as lost in the meantime.
func (w *World) wasStopped() bool {
	now := time.Since(w.began)
	woke := w.resumed.Load()
	return w.isTooLong(now-time.Duration(w.lastTick.Load())) || woke > 0 && now-time.Duration(woke) < endWait
}

// Close leaves the run. The other processes go on, unless the run has ended early: then Close
// ends those that are stuck and that it can reach. Over MPI this process may be one of them, so
// write everything before.
func (w *World) Close() {
	w.once.Do(func() {
		if w.Cause() == nil && w.announced != nil {
			w.Barrier(context.Background(), "leave") // MPI would wait for all as well, but spin
		}
		if w.Cause() == nil {
			w.wire.Close()
		}
		if lost := w.unresponsive(); lost != nil {
			w.children.kill(lost.Rank) // it would not say goodbye
		}
		close(w.left)
		w.control.leave()
		w.readers.Wait()
		w.Kill()
	})
}

// Kill ends the processes that this one has started and that do not end by themselves, and a
// process that does not answer.
func (w *World) Kill() {
	w.children.end(w.Cause() != nil)
	if lost := w.unresponsive(); lost != nil {
		w.killParent(*lost)
		w.wire.Break(true)
	}
}

// unresponsive returns the process whose silence ended the run; nil if that was not the cause.
func (w *World) unresponsive() *Member {
	if lost := (*LostError)(nil); errors.As(w.Cause(), &lost) && lost.Silent > 0 {
		return &lost.Process
	}
	return nil
}

// WhenLate calls what if this process is still running a while after the run ended early.
func (w *World) WhenLate(what func(cause error)) {
	go func() {
		select {
		case <-w.left:
			return
		case <-w.ended:
		}
		select {
		case <-w.left:
		case <-time.After(lateAfter):
			what(w.Cause())
		}
	}()
}

// lateAfter bounds how long a process may continue after the run has ended early.
const lateAfter = 5 * time.Second
