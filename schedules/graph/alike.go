package graph

// Alike reports whether every replica does the same at the same time as the first one, whose
// tasks are in the graph, so that the first can stand for all: their tasks cost the same, and
// they share neither links nor host threads.
func (g *Graph) Alike(costs Costs) bool {
	if h := costs.Host; h != nil && !h.separate() || costs.Cores != nil {
		return false
	}
	ranks := g.Shape.Ranks
	for r := ranks; r < len(costs.Persistent); r++ {
		if costs.Persistent[r] != costs.Persistent[r-ranks] {
			return false
		}
	}
	compared := max(1, g.Shape.Replicas)
	if costs.Period > 0 {
		compared = min(compared, costs.Period)
	}
	var l links
	own := make([]Cost, len(g.Classes))
	for d := range int32(compared) {
		clear(l.other)
		for i := range g.Classes {
			t := g.InReplica(int32(i), d)
			cost := costs.Task(&t)
			if d == 0 {
				own[i] = cost
			}
			if !own[i].equal(cost) {
				return false
			}
			if cost.Link > 0 && !t.Kind.Collective() && !l.use(d, own[i].Link, cost.Link) {
				return false
			}
		}
	}
	return true
}

// Routes returns a copy of the graph with one class for each stream and peer of its messages
// and collectives, and without all other classes.
func (g *Graph) Routes() *Graph {
	one, seen := *g, map[[2]int32]bool{}
	one.Classes = nil
	for _, t := range g.Classes {
		if to := [2]int32{t.Stream, t.Peer}; t.Peer != None && !seen[to] {
			seen[to] = true
			one.Classes = append(one.Classes, t)
		}
	}
	return &one
}

// links records which replica uses which links.
type links struct {
	uses  []linkUse // by link
	other []int32   // by link of the first replica: the link that the current replica uses for it
}

// A linkUse says that a replica, counted from 1, uses a link for the same tasks as the first
// replica uses its own.
type linkUse struct{ replica, link int32 }

// use records that a replica uses a link where the first replica uses the link first. It returns
// false if the link is in use otherwise, or if the replica uses a different one in the same role.
func (l *links) use(replica, first, link int32) bool {
	u := linkUse{replica + 1, first}
	l.uses, l.other = extended(l.uses, link), extended(l.other, first)
	if before := l.uses[link]; before != (linkUse{}) && before != u {
		return false
	}
	if before := l.other[first]; before != 0 && before != link {
		return false
	}
	l.uses[link], l.other[first] = u, link
	return true
}

// extended returns a slice that is long enough to have an index.
func extended[T any](s []T, index int32) []T {
	if n := int(index) + 1 - len(s); n > 0 {
		return append(s, make([]T, n)...)
	}
	return s
}

// equal reports whether costs are the same, except that they may be on different links.
func (c Cost) equal(d Cost) bool {
	if (c.Inner == nil) != (d.Inner == nil) || c.Inner != nil && *c.Inner != *d.Inner {
		return false
	}
	if (c.Link == 0) != (d.Link == 0) {
		return false
	}
	d.Inner, d.Link = c.Inner, c.Link
	return c == d
}

// separate reports whether every rank has a thread of its own.
func (h *Host) separate() bool {
	for r, thread := range h.Thread {
		if int(thread) != r {
			return false
		}
	}
	return true
}
