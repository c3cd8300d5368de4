package graph

// Sharing says which replicas gather updated parameters from each other, where optimizer states are
// divided among the replicas of a group and every group holds all of them:
//
//	span 2 of 4 replicas    replicas 0 1   2 3    gather from each other
//
// Where a group holds all gradients, too, those at the same place of their groups sum their shares:
//
//	replicas 0 2   1 3
//
// The zero value means that all replicas do.
type Sharing struct {
	Span int32 // neighbouring replicas of a group; 0 means all
	// First is the index in Graph.Groups of the first group. There is one for every block of Span
	// replicas and rank, in this order.
	First, count int32
	// across is the index of the first group that sums shares. There is one for every place in a block
	// and rank, in this order.
	across, places int32
}

// Across is the group in which a rank sums its share.
func (s Sharing) Across(replica, rank, ranks int32) int32 {
	return s.across + replica%s.Span*ranks + rank
}

// SumsShares reports whether a group sums shares.
func (s Sharing) SumsShares(group int32) bool { return group >= s.across && group < s.across+s.places }

// Group is the group of a rank; ranks is their number in a replica.
func (s Sharing) Group(replica, rank, ranks int32) int32 {
	return s.First + replica/s.Span*ranks + rank
}

// isGroup reports whether a group is one of these.
func (s Sharing) isGroup(group int32) bool { return group >= s.First && group < s.First+s.count }

// AddSharing adds the groups of span neighbouring replicas, with width devices of every rank.
func (g *Graph) AddSharing(shape Shape, span, width int) {
	replicas, ranks := shape.Replicas, shape.Ranks
	g.Sharing = Sharing{Span: int32(span), First: int32(len(g.Groups)), count: int32(replicas / span * ranks)}
	for block := 0; block < replicas; block += span {
		for r := range ranks {
			var group []int32
			for d := block; d < block+span; d++ {
				group = append(group, int32(d*ranks+r))
			}
			g.AddWide(group, width)
		}
	}
}

// AddAcross adds the groups that sum shares, after AddSharing. Every device of a rank has a group of its own.
func (g *Graph) AddAcross(shape Shape) {
	replicas, ranks, span := shape.Replicas, shape.Ranks, int(g.Sharing.Span)
	g.Sharing.across, g.Sharing.places = int32(len(g.Groups)), int32(span*ranks)
	for place := range span {
		for r := range ranks {
			var group []int32
			for d := place; d < replicas; d += span {
				group = append(group, int32(d*ranks+r))
			}
			g.AddGroup(group)
		}
	}
}
