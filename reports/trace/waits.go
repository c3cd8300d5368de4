package trace

import (
	"iter"

	"psim/schedules/graph"
)

// waits yields every message with each task that waited for it. In place of a message that
// takes no time it yields the task whose output the message carries.
func waits(t *graph.Trace) iter.Seq2[int32, int32] {
	g := t.Graph
	return func(yield func(source, task int32) bool) {
		for i := range int32(g.Len()) {
			for _, d := range g.Deps(i) {
				if !g.Class(d).Kind.Message() {
					continue
				}
				source := d
				if deps := g.Deps(d); t.Span(d).Duration() == 0 && len(deps) > 0 {
					source = deps[0]
				}
				if !yield(source, i) {
					return
				}
			}
		}
	}
}

// flows are the arrows from messages to the tasks that waited for them, with numbers from 0.
type flows struct {
	to    []int32 // by task: the first flow that ends there, and after the last task the number of flows
	first []int32 // by task: the first flow that begins there, or None
	next  []int32 // by flow: the next one that begins at the same task, or None
}

// newFlows numbers the arrows of a trace. Those that end at the same task have consecutive numbers.
func newFlows(t *graph.Trace) flows {
	n := t.Graph.Len()
	f := flows{to: make([]int32, n+1), first: make([]int32, n)}
	for i := range f.first {
		f.first[i] = graph.None
	}
	for source, task := range waits(t) {
		f.next = append(f.next, graph.None)
		flow := int32(len(f.next) - 1)
		f.to[task+1] = flow + 1
		last := &f.first[source]
		for *last != graph.None {
			last = &f.next[*last]
		}
		*last = flow
	}
	for i := range n {
		f.to[i+1] = max(f.to[i+1], f.to[i])
	}
	return f
}

// from yields the flows that begin at a task.
func (f *flows) from(task int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for flow := f.first[task]; flow != graph.None && yield(flow); flow = f.next[flow] {
		}
	}
}

// number returns the number in the file of a replica's flow. Those of the replicas follow each other.
func (f *flows) number(flow, replica int32) uint64 {
	return 1 + uint64(replica)*uint64(len(f.next)) + uint64(flow)
}
