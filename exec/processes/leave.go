package processes

import (
	"context"
	"errors"
	"time"
)

// Close leaves the run. The other processes may go on, unless it has ended early: then
// those that this one can reach and that are stuck are ended. Over MPI this process may
// be among them, so that everything should be said and written before.
func (w *World) Close() {
	w.once.Do(func() {
		if w.Cause() == nil && w.announced != nil {
			w.Barrier(context.Background(), "leave") // MPI waits for all, too, and spins
		}
		if w.Cause() == nil {
			w.wire.Close()
		}
		if lost := w.silent(); lost != nil {
			w.children.kill(lost.Rank) // whose farewell would be waited for
		}
		close(w.left)
		w.control.leave()
		w.readers.Wait()
		w.Kill()
	})
}

// Kill ends the processes that this one has started and that do not end by themselves,
// and those that do not answer.
func (w *World) Kill() {
	w.children.end(w.Cause() != nil)
	if lost := w.silent(); lost != nil {
		w.endParent(*lost)
		w.wire.Break(true)
	}
}

// silent returns the process that has ended the run because it does not answer; nil if none
// has.
func (w *World) silent() *Process {
	if lost := (*LostError)(nil); errors.As(w.Cause(), &lost) && lost.Silent > 0 {
		return &lost.Process
	}
	return nil
}

// WhenLate calls what where this process goes on for longer than a while after the run
// has ended early.
func (w *World) WhenLate(what func(cause error)) {
	go func() {
		select {
		case <-w.left:
			return
		case <-w.ended:
		}
		select {
		case <-w.left:
		case <-time.After(late):
			what(w.Cause())
		}
	}()
}

// late bounds what a process may still do when the run has ended early.
const late = 5 * time.Second
