package graph

// Alike reports whether all replicas do the same at the same time as the first one, whose
// tasks the graph has, so that it stands for all: they cost the same, and share no link and no
// host thread.
func (g *Graph) Alike(costs Costs) bool {
	if h := costs.Host; h != nil && !h.apart() || costs.Cores != nil {
		return false
	}
	ranks := g.Shape.Ranks
	for r := ranks; r < len(costs.Persistent); r++ {
		if costs.Persistent[r] != costs.Persistent[r-ranks] {
			return false
		}
	}
	var l links
	own := make([]Cost, len(g.Classes))
	for d := range int32(max(1, g.Shape.Replicas)) {
		clear(l.other)
		for i := range g.Classes {
			t := g.Copied(int32(i), d)
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

// Links returns the graph with one class for every stream and whom its tasks go to, and without
// those that do not leave their rank.
func (g *Graph) Links() *Graph {
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

// links notes which replica uses which links.
type links struct {
	uses  []linkUse // by link
	other []int32   // by link of the first replica: that of the replica at hand
}

// A linkUse is that of a link: by a replica, counted from 1, in place of a link of the first.
type linkUse struct{ replica, link int32 }

// use notes that a replica uses a link in place of one of the first replica. It returns false
// where another replica uses it, or where the replica uses another link in the same place.
func (l *links) use(replica, first, link int32) bool {
	u := linkUse{replica + 1, first}
	l.uses, l.other = reaching(l.uses, link), reaching(l.other, first)
	if before := l.uses[link]; before != (linkUse{}) && before != u {
		return false
	}
	if before := l.other[first]; before != 0 && before != link {
		return false
	}
	l.uses[link], l.other[first] = u, link
	return true
}

// reaching returns a slice that has an index.
func reaching[T any](s []T, index int32) []T {
	if n := int(index) + 1 - len(s); n > 0 {
		return append(s, make([]T, n)...)
	}
	return s
}

// equal reports whether costs are the same, perhaps on another link.
func (c Cost) equal(d Cost) bool {
	if (c.Inner == nil) != (d.Inner == nil) || c.Inner != nil && *c.Inner != *d.Inner || (c.Link == 0) != (d.Link == 0) {
		return false
	}
	d.Inner, d.Link = c.Inner, c.Link
	return c == d
}

// apart reports whether no two ranks share a thread.
func (h *Host) apart() bool {
	for r, thread := range h.Thread {
		if int(thread) != r {
			return false
		}
	}
	return true
}

// Copied returns the task of a class of the first replica as another replica has it, but for its
// stream.
func (g *Graph) Copied(class, replica int32) Task {
	t, ranks := g.Classes[class], int32(g.Shape.Ranks)
	t.Rank += replica * ranks
	switch within := g.Within * max(1, g.Shape.Replicas); {
	case t.Kind.Message():
		t.Peer += replica * ranks
	case t.Kind.Collective() && int(t.Peer) >= len(g.Groups)-within:
		t.Peer += replica * int32(g.Within)
	case t.Kind == AllToAll:
		t.Peer += replica / g.Experts.Span * ranks
	case g.Experts.sums(t.Peer, int(ranks)):
		t.Peer += replica % g.Experts.Span * ranks
	}
	return t
}
