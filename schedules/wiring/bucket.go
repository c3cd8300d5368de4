package wiring

// firstBucket limits the first bucket, which PyTorch keeps small so
// that the first collective starts early.
const firstBucket = 1 << 20

// Buckets joins gradient tensors, given by their size in bytes in the order
// in which they become complete, into the pieces that travel together. A
// bucket is closed when it has reached the limit, so it may exceed it; the
// first closes at 1 MiB. A limit of 0 keeps every tensor by itself (Li et al.
// 2020, "PyTorch Distributed", section 3.2.2; PyTorch's reducer).
func Buckets(tensors []int64, limit int64) []int64 {
	if limit <= 0 {
		return append([]int64(nil), tensors...)
	}
	var buckets []int64
	var open int64
	for _, size := range tensors {
		open += size
		closes := limit
		if len(buckets) == 0 {
			closes = min(limit, firstBucket)
		}
		if open >= closes {
			buckets = append(buckets, open)
			open = 0
		}
	}
	if open > 0 {
		buckets = append(buckets, open)
	}
	return buckets
}
