package graph

import (
	"fmt"
	"iter"
)

// Where the first replica stands for all (Graph.Copies), a graph has its tasks and streams only. What
// the other replicas do follows from these.

// MessageStream names the stream of the messages of a kind to a rank.
func MessageStream(k Kind, to int32) string {
	direction := "F"
	if k == SendBackward {
		direction = "B"
	}
	return fmt.Sprintf("send %s to %d", direction, to)
}

// InReplica returns the task with which a replica does what a class of the first replica does. Its
// stream is that of the first replica.
func (g *Graph) InReplica(class, replica int32) Task {
	t, ranks := g.Classes[class], int32(g.Shape.Ranks)
	t.Rank += replica * ranks
	switch within := g.Within * max(1, g.Shape.Replicas); {
	case t.Kind.Message():
		t.Peer += replica * ranks
	case t.Kind.Collective() && int(t.Peer) >= len(g.Groups)-within:
		t.Peer += replica * int32(g.Within)
	case t.Kind == AllToAll:
		t.Peer += replica / g.Experts.Span * ranks
	case t.Kind.Collective() && g.Experts.isSum(t.Peer, int(ranks)):
		t.Peer += replica % g.Experts.Span * ranks
	case t.Kind.Collective() && g.Sharing.isGroup(t.Peer):
		t.Peer += replica / g.Sharing.Span * ranks
	case t.Kind.Collective() && g.Sharing.SumsShares(t.Peer):
		t.Peer += replica % g.Sharing.Span * ranks
	}
	return t
}

// Replicas counts the replicas that the tasks of the graph stand for.
func (g *Graph) Replicas() int { return max(1, g.Copies) }

// TaskOf returns the task with which a replica does what the i-th task does. Streams are numbered as
// [Graph.AllStreams] lists them.
func (g *Graph) TaskOf(i, replica int32) Task {
	if replica == 0 {
		return g.Task(i)
	}
	t := g.InReplica(g.Rows[i].Class, replica)
	if g.Microbatch != nil {
		t.Microbatch = g.Microbatch[i]
	}
	t.Stream += replica * int32(len(g.Streams))
	return t
}

// Tasks yields the tasks of all replicas in order, each with the index of the task that stands for it.
func (g *Graph) Tasks() iter.Seq2[int32, Task] {
	return func(yield func(int32, Task) bool) {
		for replica := range int32(g.Replicas()) {
			for i := range int32(g.Len()) {
				if !yield(i, g.TaskOf(i, replica)) {
					return
				}
			}
		}
	}
}

// AllStreams lists the streams of all replicas.
func (g *Graph) AllStreams() []Stream {
	n := len(g.Streams)
	list, kind, to := make([]Stream, 0, n*g.Replicas()), make([]Kind, n), make([]int32, n)
	for i := range g.Classes {
		if t := &g.Classes[i]; t.Kind.Message() {
			kind[t.Stream], to[t.Stream] = t.Kind, t.Peer
		}
	}
	list = append(list, g.Streams...)
	for replica := int32(1); int(replica) < g.Replicas(); replica++ {
		ranks := replica * int32(g.Shape.Ranks)
		for s, stream := range g.Streams {
			if stream.Rank += ranks; kind[s].Message() {
				stream.Name = MessageStream(kind[s], to[s]+ranks)
			}
			list = append(list, stream)
		}
	}
	return list
}
