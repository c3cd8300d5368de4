package wiring

import (
	"fmt"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// message adds the send of what an action made, and returns its index.
func (w *rankWiring) message(send order.Action) int32 {
	letter, to, boundary := "F", send.Stage+1, send.Stage
	if send.Kind == graph.SendBackward {
		letter, to, boundary = "B", send.Stage-1, send.Stage-1
	}
	peer := int32(w.replica*w.Shape.Ranks) + w.Placement.Rank(to, send.Microbatch)
	stream, ok := w.sends[[2]int32{peer, int32(send.Kind)}]
	if !ok {
		stream = w.graph.AddStream(w.rank, fmt.Sprintf("send %s to %d", letter, peer))
		w.sends[[2]int32{peer, int32(send.Kind)}] = stream
	}
	return w.add(graph.Task{
		Kind: send.Kind, Rank: w.rank, Stream: stream, Stage: send.Stage, Microbatch: send.Microbatch,
		Peer: peer, Bytes: w.payload(send.Kind, boundary, send.Microbatch),
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
