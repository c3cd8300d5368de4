package wiring

import (
	"psim/schedules/graph"
	"psim/schedules/order"
)

// deliver sends the result of an action if it is needed on another rank, and records the task at
// whose end it has arrived, which it returns. Task i is the last of the action.
func (b *rankBuilder) deliver(a *order.Action, on, variant, i int32) int32 {
	d := direction(a.Kind)
	if to := b.destinations[d][on]; to != graph.None {
		i = b.addMessage(a, on, variant, to)
	}
	b.results[d][int(a.Stage)*b.Shape.Microbatches+int(a.Microbatch)] = i
	return i
}

// addMessage adds the message with the result of an action to a rank.
func (b *rankBuilder) addMessage(a *order.Action, on, variant, to int32) int32 {
	kind, boundary := graph.SendForward, a.Stage
	if a.Kind != graph.Forward {
		kind, boundary = graph.SendBackward, a.Stage-1
	}
	class := b.entry(int(kind), on, variant)
	if *class == graph.None {
		t := b.task(a, kind, b.streamTo(to, direction(a.Kind)))
		t.Peer, t.Bytes = to, b.payload(kind, boundary, a.Microbatch, 0)
		*class = b.addClasses(t, 1)
	}
	i := b.graph.Put(*class, b.graph.Classes[*class].Stream, a.Microbatch)
	b.graph.Rows[i].After = i - 1
	return i
}

// streamTo returns the stream of messages to a rank in a direction.
func (b *rankBuilder) streamTo(to int32, direction int) int32 {
	for _, s := range b.sends {
		if s.rank == to && int(s.direction) == direction {
			return s.stream
		}
	}
	stream := b.graph.AddStream(b.rank, graph.MessageStream(graph.SendForward+graph.Kind(direction), to))
	b.sends = append(b.sends, messageTo{to, int32(direction), stream})
	return stream
}

// payload returns the size in bytes of a message across a boundary.
func (p *Pipeline) payload(k graph.Kind, boundary, microbatch int32, replica int) int64 {
	if p.Boundaries == nil {
		return 0
	}
	bytes := p.Boundaries[boundary].Forward
	if k == graph.SendBackward {
		bytes = p.Boundaries[boundary].Backward
	}
	return bytes * p.samples(microbatch, replica)
}

// samples returns the number of samples in a microbatch of a replica.
func (p *Pipeline) samples(microbatch int32, replica int) int64 {
	switch {
	case p.Shards != nil:
		return p.Shards[replica]
	case p.Samples != nil:
		return p.Samples[microbatch]
	}
	return 1
}
