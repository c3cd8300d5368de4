package wiring

import "psim/schedules/graph"

// replicate adds the tasks of the other replicas, unless the first replica stands for all.
func (b *Builder) replicate() {
	g, replicas := b.graph, b.Shape.Replicas
	if b.Folded {
		g.Copies = replicas
		return
	}
	classes, streams := int32(len(g.Classes)), int32(len(g.Streams))
	to := b.receivers()
	for d := int32(1); int(d) < replicas; d++ {
		for s, stream := range g.Streams[:streams] {
			stream.Rank += d * int32(b.Shape.Ranks)
			if m := to[s]; m.rank != graph.None {
				stream.Name = streamName(int(m.direction), m.rank+d*int32(b.Shape.Ranks))
			}
			g.Streams = append(g.Streams, stream)
		}
		for class := range classes {
			t := b.copied(class, d)
			t.Stream += d * streams
			g.Classes = append(g.Classes, t)
		}
	}
	g.Repeat(replicas, classes, streams)
}

// receivers returns, by stream, where its messages go. The rank is None for streams of other tasks.
func (b *Builder) receivers() []messageTo {
	to := make([]messageTo, len(b.graph.Streams))
	for s := range to {
		to[s].rank = graph.None
	}
	for i := range b.graph.Classes {
		if t := &b.graph.Classes[i]; t.Kind.Message() {
			to[t.Stream] = messageTo{rank: t.Peer, direction: int32(t.Kind - graph.SendForward)}
		}
	}
	return to
}

// copied returns the task with which replica d does what a class of the first replica does.
func (b *Builder) copied(class, d int32) graph.Task {
	t := b.graph.InReplica(class, d)
	switch {
	case b.Shards == nil:
	case t.Kind == graph.Loss:
		t.Bytes = b.Loop.Logits * b.samples(t.Microbatch, int(d))
	case t.Kind == graph.AllToAll:
		t.Bytes = t.Bytes / b.samples(t.Microbatch, 0) * b.samples(t.Microbatch, int(d))
	case t.Kind.Message():
		boundary := t.Stage
		if t.Kind == graph.SendBackward {
			boundary--
		}
		t.Bytes = b.payload(t.Kind, boundary, t.Microbatch, int(d))
	}
	return t
}
