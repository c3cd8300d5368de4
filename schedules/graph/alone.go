package graph

// Alike reports whether all replicas do the same at the same time as the first, whose
// tasks the graph has, so that it stands for all: of every stream, a message or collective
// costs the same in each, on links that they do not share. tied counts the groups within a
// replica, which stand behind all others.
func (g *Graph) Alike(costs Costs, tied int) bool {
	one, seen := *g, map[[2]int32]bool{}
	one.Tasks = nil
	for _, t := range g.Tasks {
		if at := [2]int32{t.Stream, t.Peer}; t.Peer != None && !seen[at] {
			seen[at] = true
			one.Tasks = append(one.Tasks, t)
		}
	}
	sample := Packed{Graph: &one, Copies: max(1, g.Shape.Replicas), Within: int32(tied)}
	return sample.Price(costs) == nil
}

// Alone returns a graph that has the tasks of the first replica as that of one replica:
// with groups of its own ranks.
func (g *Graph) Alone() *Graph {
	one := *g
	one.Shape.Replicas, one.Groups = 1, make([][]int32, len(g.Groups))
	for i, group := range g.Groups {
		for _, r := range group {
			if int(r) < g.Shape.Ranks {
				one.Groups[i] = append(one.Groups[i], r)
			}
		}
	}
	return &one
}

// copy gives the other replicas what the first one's ranks have.
func (s *Summary) copy(ranks int) {
	for r := ranks; r < len(s.Ranks); r++ {
		s.Ranks[r] = s.Ranks[r%ranks]
		s.Ranks[r].Rank = r
	}
}
