package wiring

import "psim/schedules/graph"

// Libraries such as Gloo work in host memory. With [Sync.Staging] every collective on tensors of
// a device is three tasks of the same stream. The copies use the host's link:
//
//	gradients   TO_HOST  ALL_REDUCE  FROM_HOST
//
// All-to-alls of experts have no copies.

// perCollective counts the tasks of a collective.
func (p *Pipeline) perCollective() int64 {
	if p.Sync.Staging {
		return 3
	}
	return 1
}

// addCollective adds a collective with a class of its own, and its dependencies. It returns the
// task with which it ends.
func (b *rankBuilder) addCollective(t graph.Task, deps ...int32) int32 {
	t.Rank = b.rank
	return b.putCollective(b.addCollectiveClass(t), t.Stream, t.Microbatch, deps...)
}

// addCollectiveClass adds the classes of a collective's tasks, and returns the first.
func (b *rankBuilder) addCollectiveClass(t graph.Task) int32 {
	if !b.Sync.Staging {
		return b.addClasses(t, 1)
	}
	brings := t
	if n := int64(b.graph.Members(t.Peer)); t.Kind == graph.AllGather {
		brings.Bytes = (t.Bytes + n - 1) / n
	}
	first := b.addClasses(hostCopy(graph.ToHost, brings), 1)
	b.addClasses(t, 1)
	b.addClasses(hostCopy(graph.FromHost, t), 1)
	return first
}

// hostCopy returns the copy of a collective's tensor to or from the host.
func hostCopy(kind graph.Kind, t graph.Task) graph.Task {
	t.Kind, t.Of, t.Peer = kind, t.Kind, graph.None
	return t
}

// putCollective adds a collective, given the first of its classes, and its dependencies. It
// returns the task with which it ends.
func (b *rankBuilder) putCollective(class, stream, microbatch int32, deps ...int32) int32 {
	i := b.graph.Put(class, stream, microbatch)
	b.graph.Wait(i, deps...)
	for k := int32(1); k < int32(b.perCollective()); k++ {
		i = b.graph.Put(class+k, stream, microbatch)
		b.graph.Wait(i, i-1)
	}
	return i
}
