package graph

import (
	"strings"
	"time"
)

// A Share is the part of a task's or a step's time that goes into one kind of work.
type Share struct {
	Class string
	Time  time.Duration
}

// The kinds of work other than communication that do not depend on the network. A cost model
// names the kinds of work inside computing tasks.
const (
	Launches  = "launches"  // devices wait for their host, or a kernel starts
	Updating  = "optimizer" // update of the parameters, and zeroing of gradients
	Averaging = "averaging" // division of summed gradients
	Waiting   = "waiting"   // nothing runs: bubbles, and waiting for other ranks
	// HostCopies are copies between devices and their hosts, around collectives or of what forwards keep.
	HostCopies = "host_copies"
)

// Work names the work of a task that does not compute: averaging, optimizer, or
// communication by dimension (pipeline, data, tied, collective) and collective.
func (g *Graph) Work(t *Task) string {
	switch {
	case t.Kind.Update():
		return Updating
	case t.Kind.Staging():
		return HostCopies
	case t.Kind == Average:
		return Averaging
	case t.Kind.Collective():
		return g.Dimension(t) + "_" + strings.ToLower(t.Kind.String())
	}
	return g.Dimension(t)
}

// Dimension names the dimension of parallelism along which a message or a collective
// communicates: pipeline; data; expert, among the ranks that divide the experts of a layer;
// expert-data, among those that hold the same experts; tied, among ranks of one replica that hold
// the same parameters. Tasks of a collective that is simulated by itself are of dimension
// collective.
func (g *Graph) Dimension(t *Task) string {
	switch {
	case t.Kind == SendForward || t.Kind == SendBackward:
		return "pipeline"
	case !t.Kind.Collective():
		return "collective"
	case t.Kind == AllToAll:
		return "expert"
	case g.Experts.isSum(t.Peer, g.Shape.Ranks):
		return "expert-data"
	}
	ranks, perReplica := g.Groups[t.Peer], int32(g.Shape.Ranks)
	if len(ranks) > 1 && ranks[0]/perReplica == ranks[len(ranks)-1]/perReplica {
		return "tied"
	}
	return "data"
}
