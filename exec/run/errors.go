package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"psim/exec/cluster"
	"psim/schedules/graph"
)

// A TaskError is the first failure of a run.
type TaskError struct {
	Graph *graph.Graph
	Task  int32
	Err   error
}

// Error names the task, its rank and its stream.
func (e *TaskError) Error() string { return e.Graph.Describe(e.Task) + ": " + e.Err.Error() }

// Unwrap returns the error of the task.
func (e *TaskError) Unwrap() error { return e.Err }

// recoverAsError turns a panic into an error.
func recoverAsError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// An Error ended a run that had begun: the job and the options are not at fault.
type Error struct{ Err error }

// Error returns the message of the error that ended the run.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error that ended the run.
func (e *Error) Unwrap() error { return e.Err }

// Failed marks the error of a run as an Error, unless the user interrupted the run.
func Failed(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &Error{err}
}

// taskFailure returns the error of the run for the error of a task. It is not the task's fault
// if another process was lost or has aborted the run.
func (r *runner) taskFailure(i int32, err error) error {
	var lost *cluster.LostError
	var aborted *cluster.AbortError
	switch {
	case errors.As(err, &lost):
		return lost
	case errors.As(err, &aborted):
		return aborted
	}
	return &TaskError{r.graph, i, err}
}

// endCause returns why a run ended early. If a process was lost, it adds a task of this process
// that waits for it.
func (r *runner) endCause(ctx context.Context) error {
	err := context.Cause(ctx)
	var lost *cluster.LostError
	if r.portion == nil || r.outer != nil || !errors.As(err, &lost) {
		return err
	}
	gone := func(rank int32) bool { return r.portion.Owners[rank] == lost.Process.Rank }
	for _, h := range r.heads() {
		t, task := r.graph.Task(h.Task), r.graph.Describe(h.Task)
		switch {
		case h.WaitsFor != graph.None && gone(r.graph.Class(h.WaitsFor).Rank):
			return fmt.Errorf("%w; %s waits for %s", err, task, r.graph.Describe(h.WaitsFor))
		case h.WaitsFor == graph.None && t.Kind.Collective() && slices.ContainsFunc(r.graph.Groups[t.Peer], gone):
			return fmt.Errorf("%w; %s waits for the other ranks of group %v", err, task, r.graph.Groups[t.Peer])
		}
	}
	return err
}
