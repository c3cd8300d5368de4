package sim

import (
	"fmt"
	"strings"

	"psim/schedules/graph"
)

// A DeadlockError reports that a graph cannot be run to its end: every stream
// that has tasks left is blocked.
type DeadlockError struct {
	Graph   *graph.Graph
	Done    int // tasks that ran
	Blocked []BlockedStream
}

// A BlockedStream is a stream whose head cannot start.
type BlockedStream struct {
	Stream int32
	Head   int32 // the task at its head
	// WaitsFor is the task that the head depends on, or None where it is a
	// fused collective whose group is incomplete.
	WaitsFor int32
	Left     int // tasks left on the stream, the head included
}

// Error prints the head of every blocked stream and what it waits for.
func (e *DeadlockError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock: %d of %d tasks ran, then every stream was blocked", e.Done, e.Graph.Len())
	const most = 32
	for i, s := range e.Blocked {
		if i == most {
			fmt.Fprintf(&b, "\n  … and %d more streams", len(e.Blocked)-most)
			break
		}
		fmt.Fprintf(&b, "\n  %s waits for ", e.Graph.Describe(s.Head))
		if s.WaitsFor == graph.None {
			fmt.Fprintf(&b, "the other ranks of group %v", e.Graph.Groups[e.Graph.Task(s.Head).Peer])
		} else {
			b.WriteString(e.Graph.Describe(s.WaitsFor))
		}
	}
	return b.String()
}

// deadlock describes the blocked streams, in order.
func (e *Engine) deadlock() error {
	err := &DeadlockError{Graph: e.graph}
	for _, at := range e.released {
		if at >= 0 {
			err.Done++
		}
	}
	for s := range e.streams {
		head := e.streams[s].head
		if head == none {
			continue
		}
		b := BlockedStream{Stream: int32(s), Head: head, WaitsFor: none}
		for i := head; i != none; i = e.graph.Next(i) {
			b.Left++
		}
		for _, d := range e.graph.Deps(head) {
			if e.released[d] < 0 {
				b.WaitsFor = d
				break
			}
		}
		err.Blocked = append(err.Blocked, b)
	}
	return err
}
