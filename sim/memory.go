package sim

import "psim/schedules/graph"

func (e *engine) noteInner(i int32, inner graph.Inner) {
	if e.trace.Inner == nil {
		e.trace.Inner = make([]graph.Inner, len(e.graph.Tasks))
	}
	e.trace.Inner[i] = inner
}

// remember records how a task changes the memory in use.
func (e *engine) remember(t *graph.Task, i int32, cost *graph.Cost) {
	if cost.BytesAtStart != 0 {
		rank := t.Rank
		if t.Kind.Message() {
			rank = t.Peer
		}
		e.note(graph.MemoryEvent{At: e.trace.Spans[i].Start, Bytes: cost.BytesAtStart, Rank: rank, Task: i})
	}
	if cost.BytesAtEnd != 0 {
		e.note(graph.MemoryEvent{At: e.trace.Spans[i].End, Bytes: cost.BytesAtEnd, Rank: t.Rank, Task: i})
	}
}

// note appends a memory event. Pieces double up to a size beyond which copying takes
// longer than a list.
func (e *engine) note(m graph.MemoryEvent) {
	const smallest, largest = 8, 15 // as powers of two
	n := len(e.memory)
	if n == 0 || len(e.memory[n-1]) == cap(e.memory[n-1]) {
		e.memory = append(e.memory, make([]graph.MemoryEvent, 0, 1<<min(smallest+n, largest)))
		n++
	}
	e.memory[n-1] = append(e.memory[n-1], m)
}
