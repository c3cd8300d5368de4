package graph

import "time"

// A Share is a part of a task's time, or of a step's, of one class of work.
type Share struct {
	Class string
	Time  time.Duration
}

// The classes of work that are told from a task's kind. What computing tasks are made
// of, whoever prices them says.
const (
	Launches  = "launches"  // devices wait for their host, or a kernel starts
	Updating  = "optimizer" // update of the parameters
	Averaging = "averaging" // division of summed gradients
	Waiting   = "waiting"   // nothing runs: bubbles, and what comes from other ranks
)

// Work names the class of work of a task that does not compute: averaging, optimizer, or
// communication by dimension (pipeline, data, tied, collective) and collective.
func (g *Graph) Work(t *Task) string {
	switch {
	case t.Kind == Optimizer:
		return Updating
	case t.Kind == Average:
		return Averaging
	case t.Kind.Collective():
		return g.Dimension(t) + "_" + map[Kind]string{
			AllReduce: "all_reduce", ReduceScatter: "reduce_scatter", AllGather: "all_gather", Broadcast: "broadcast", AllToAll: "all_to_all",
		}[t.Kind]
	}
	return g.Dimension(t)
}

// Dimension says what the ranks of a message or of a collective have to do with each
// other: pipeline, data, expert, which are those that share the experts of a layer,
// expert-data, which hold the same ones, or tied, which are those of one replica that
// hold the same parameters; and collective, of one by itself.
func (g *Graph) Dimension(t *Task) string {
	switch {
	case t.Kind == SendForward || t.Kind == SendBackward:
		return "pipeline"
	case !t.Kind.Collective():
		return "collective"
	case t.Kind == AllToAll:
		return "expert"
	case g.Experts.sums(t.Peer, g.Shape.Ranks):
		return "expert-data"
	}
	ranks, perReplica := g.Groups[t.Peer], int32(g.Shape.Ranks)
	if len(ranks) > 1 && ranks[0]/perReplica == ranks[len(ranks)-1]/perReplica {
		return "tied"
	}
	return "data"
}
