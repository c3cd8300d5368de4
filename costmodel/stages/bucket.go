package stages

import (
	"psim/costmodel/arch"
)

// firstBucket closes the first bucket, which PyTorch keeps small so that the first
// collective starts early.
const firstBucket = 1 << 20

// buckets joins the gradients of tensors, in the order in which they become
// complete, into what travels together. A bucket is closed when it has reached
// Bucket bytes, so it may exceed it; the first closes at 1 MiB. A limit of 0 keeps
// every tensor by itself (Li et al. 2020, "PyTorch Distributed", section 3.2.2;
// PyTorch's reducer).
func (p *Plan) buckets(tensors []arch.Tensor) []Bucket {
	var buckets []Bucket
	var open Bucket
	for _, t := range tensors {
		open.Tensors = append(open.Tensors, t.Name)
		open.Bytes += t.Shape.Elements() * p.PerParameter.Gradient
		closes := p.Bucket
		if len(buckets) == 0 {
			closes = min(closes, firstBucket)
		}
		if open.Bytes >= closes {
			buckets, open = append(buckets, open), Bucket{}
		}
	}
	if len(open.Tensors) > 0 {
		buckets = append(buckets, open)
	}
	return buckets
}

// bucketOf tells which bucket the gradient of each tensor is in.
func bucketOf(buckets []Bucket) map[string]int {
	of := map[string]int{}
	for k, b := range buckets {
		for _, name := range b.Tensors {
			of[name] = k
		}
	}
	return of
}
