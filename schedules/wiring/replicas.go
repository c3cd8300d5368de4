package wiring

import "psim/schedules/graph"

// replicate adds the tasks of the other replicas, unless the first replica stands for all.
func (b *Builder) replicate() {
	g, replicas := b.graph, b.Shape.Replicas
	g.Copies = replicas
	if b.Folded {
		return
	}
	classes, streams, all := int32(len(g.Classes)), int32(len(g.Streams)), g.AllStreams()
	for d := int32(1); int(d) < replicas; d++ {
		for class := range classes {
			t := b.copied(class, d)
			t.Stream += d * streams
			g.Classes = append(g.Classes, t)
		}
	}
	g.Streams, g.Copies = all, 0
	g.Repeat(replicas, classes, streams)
}

// copied returns the task with which replica d does what a class of the first replica does.
func (b *Builder) copied(class, d int32) graph.Task {
	t := b.graph.InReplica(class, d)
	switch {
	case b.Shards == nil:
	case t.Kind == graph.Loss:
		t.Bytes = b.Loop.Logits * b.samples(t.Microbatch, int(d))
	case t.Kind == graph.AllToAll, t.Offloads():
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
