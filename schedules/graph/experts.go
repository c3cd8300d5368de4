package graph

// Experts says which devices divide the experts of a mixture among each other. These are the
// devices of one rank, or of the same rank in several neighbouring replicas. They exchange
// tokens in all-to-alls:
//
//	span 2 of 4 replicas, 1 rank    replicas 0 1   2 3    exchange tokens
//	                                replicas 0 2   1 3    sum the gradients of experts
//
// The zero value means that there are no experts.
type Experts struct {
	// Span is how many replicas divide the experts; 0 without experts.
	Span int32
	// Exchange is the index in Graph.Groups of the first group of all-to-alls. There is one
	// for every block of Span replicas and rank, in this order. Sum is the first group that
	// sums the gradients of the same experts. There is one for every place in a block and
	// rank. It is None where nothing is summed.
	Exchange, Sum int32
}

// ExchangeGroup is the group of the all-to-alls of a rank; ranks is their number in a replica.
func (e Experts) ExchangeGroup(replica, rank, ranks int32) int32 {
	return e.Exchange + replica/e.Span*ranks + rank
}

// SumGroup is the group that sums the gradients of the experts of a rank; ranks is their number
// in a replica.
func (e Experts) SumGroup(replica, rank, ranks int32) int32 {
	return e.Sum + replica%e.Span*ranks + rank
}

// isSum reports whether a group sums gradients of experts.
func (e Experts) isSum(group int32, ranks int) bool {
	return e.Span > 0 && e.Sum != None && group >= e.Sum && group < e.Sum+e.Span*int32(ranks)
}
