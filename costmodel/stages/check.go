package stages

import (
	"fmt"
	"slices"

	"psim/schedules/graph"
)

// Check reports a graph that was not wired from these stages: one with other stages or
// microbatches, other buckets of gradients, or other cuts of its passes. So a run executes
// exactly what was priced.
func (staged *Staged) Check(g *graph.Graph) error {
	layers := 0
	for _, n := range staged.Layers {
		layers += n
	}
	switch {
	case len(staged.Stages) != g.Placement.Stages():
		return fmt.Errorf("a split into %d stages for a graph of %d", len(staged.Stages), g.Placement.Stages())
	case layers != len(staged.Network.Layers):
		return fmt.Errorf("a split of %d layers for a network of %d", layers, len(staged.Network.Layers))
	case len(staged.Samples) != g.Shape.Microbatches:
		return fmt.Errorf("%d sizes for %d microbatches", len(staged.Samples), g.Shape.Microbatches)
	case staged.replicas() != g.Shape.Replicas:
		return fmt.Errorf("a plan for %d replicas and a graph of %d", staged.replicas(), g.Shape.Replicas)
	case !staged.Placement.Equal(g.Placement):
		return fmt.Errorf("stages on ranks %v, in the graph on %v", staged.Placement.First, g.Placement.First)
	}
	sums := staged.summedBytes()
	if staged.Gathers() {
		for s, u := range staged.units() {
			sums[s] = u.Scatter
		}
	}
	for _, check := range []struct {
		planned [][]int64
		verb    string
		kinds   []graph.Kind
	}{
		{sums, "sum", []graph.Kind{graph.AllReduce, graph.ReduceScatter}},
		{staged.broadcastBytes(), "broadcast", []graph.Kind{graph.Broadcast}},
	} {
		if err := checkPieces(check.planned, g, check.verb, check.kinds); err != nil {
			return err
		}
	}
	return staged.checkParts(g)
}

// checkPieces compares the collectives of some kinds in the first replica with the planned bytes
// by stage and bucket. verb says in messages what the collectives do.
func checkPieces(planned [][]int64, g *graph.Graph, verb string, kinds []graph.Kind) error {
	seen := make([][]bool, len(planned))
	for s := range planned {
		seen[s] = make([]bool, len(planned[s]))
	}
	for i := range g.Classes {
		t := &g.Classes[i]
		if int(t.Rank) >= g.Shape.Ranks {
			break
		}
		if t.Stage == graph.None || !slices.Contains(kinds, t.Kind) || g.Sharing.SumsShares(t.Peer) {
			continue
		}
		if int(t.Stage) >= len(planned) || int(t.Part) >= len(planned[t.Stage]) || planned[t.Stage][t.Part] != t.Bytes {
			return fmt.Errorf("%s %ss %d bytes, which is not a planned bucket", g.DescribeTask(t), verb, t.Bytes)
		}
		seen[t.Stage][t.Part] = true
	}
	for s := range seen {
		for k, found := range seen[s] {
			if !found {
				return fmt.Errorf("stage %d: the graph does not %s bucket %d of its tensors", s, verb, k)
			}
		}
	}
	return nil
}

// checkParts compares the numbers of parts into which passes are cut.
func (staged *Staged) checkParts(g *graph.Graph) error {
	forward, backward := make([]int, len(staged.Stages)), make([]int, len(staged.Stages))
	for i := range g.Classes {
		parts, t := backward, &g.Classes[i]
		if t.Kind == graph.Forward {
			parts = forward
		}
		if t.Kind.Pass() {
			parts[t.Stage] = max(parts[t.Stage], int(t.Part)+1)
		}
	}
	for s := range staged.Stages {
		if want := staged.PartsOf(s, graph.Backward); backward[s] != want {
			return fmt.Errorf("stage %d: the graph cuts its backward into %d parts, planned are %d",
				s, backward[s], want)
		}
		if want := staged.PartsOf(s, graph.Forward); forward[s] != want {
			return fmt.Errorf("stage %d: the graph cuts its forward into %d parts, planned are %d", s, forward[s], want)
		}
	}
	return nil
}
