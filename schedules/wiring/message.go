package wiring

import (
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// message adds the send of what an action made, and returns its index.
func (w *rankWiring) message(a order.Action) int32 {
	kind, letter, neighbour, boundary := graph.SendForward, "F", a.Stage+1, a.Stage
	if a.Kind != graph.Forward {
		kind, letter, neighbour, boundary = graph.SendBackward, "B", a.Stage-1, a.Stage-1
	}
	peer := int32(w.replica*w.Shape.Ranks) + w.rankOf(neighbour, a.Microbatch)
	stream, ok := w.sends[[2]int32{peer, int32(kind)}]
	if !ok {
		stream = w.graph.AddStream(w.rank, fmt.Sprintf("send %s to %d", letter, peer))
		w.sends[[2]int32{peer, int32(kind)}] = stream
	}
	return w.add(graph.Task{
		Kind: kind, Rank: w.rank, Stream: stream, Stage: a.Stage, Microbatch: a.Microbatch,
		Peer: peer, Bytes: w.payload(kind, boundary, a.Microbatch),
	})
}

// payload is the size in bytes of a message across a boundary.
func (w *wiring) payload(k graph.Kind, boundary, microbatch int32) int64 {
	if w.Boundaries == nil {
		return 0
	}
	bytes := w.Boundaries[boundary].Forward
	if k == graph.SendBackward {
		bytes = w.Boundaries[boundary].Backward
	}
	if w.Samples != nil {
		bytes *= w.Samples[microbatch]
	}
	return bytes
}
