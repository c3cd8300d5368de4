package graph

// Experts says where the experts of a mixture are. Their devices are those of one rank,
// or of the same rank in several neighbouring replicas, which exchange tokens in
// all-to-alls. Groups of Graph.Groups lie by rank in each:
//
//	span 2 of 4 replicas, 1 rank    replicas 0 1   2 3    exchange tokens
//	                                replicas 0 2   1 3    sum the gradients of experts
//
// The zero value has none.
type Experts struct {
	// Span is how many replicas an expert group spans; 0 is no experts.
	Span int32
	// Exchange is the first group of all-to-alls, for every block of Span replicas
	// one of each rank. Sum is the first of those that sum the gradients of the same
	// experts, for every place in a block one of each rank; None where nothing is summed.
	Exchange, Sum int32
}

// ExchangeGroup is the group of the all-to-alls of a replica's rank, of so many.
func (e Experts) ExchangeGroup(replica, rank, ranks int32) int32 {
	return e.Exchange + replica/e.Span*ranks + rank
}

// SumGroup is the group that sums the gradients of the experts of a replica's rank, of
// so many.
func (e Experts) SumGroup(replica, rank, ranks int32) int32 {
	return e.Sum + replica%e.Span*ranks + rank
}

// sums reports whether a group sums gradients of experts, in replicas of so many ranks.
func (e Experts) sums(group int32, ranks int) bool {
	return e.Span > 0 && e.Sum != None && group >= e.Sum && group < e.Sum+e.Span*int32(ranks)
}
