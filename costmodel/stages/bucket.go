package stages

import (
	"slices"

	"psim/costmodel/network"
)

// firstBucket is the size in bytes that closes the first bucket. PyTorch keeps that one small so
// that the first collective starts early.
const firstBucket = 1 << 20

// buckets puts the gradients of tensors into buckets, in the order in which they become
// complete. A bucket is closed when it has reached Bucket bytes, so it may exceed that; the
// first one closes at 1 MiB. A Bucket of 0 gives every tensor its own (Li et al. 2020, "PyTorch
// Distributed", section 3.2.2; PyTorch's reducer). With BucketGradients every bucket, also the
// first, is closed at that number of gradients (Megatron-LM,
// megatron/core/distributed/param_and_grad_buffer.py).
//
// Gradients of experts that are divided differently from the rest have buckets of their own. It also returns
// the bucket of every tensor.
func (staged *Staged) buckets(tensors []network.Tensor) (buckets []Bucket, of []int) {
	of = make([]int, len(tensors))
	open, waiting := []Bucket{{}, {Experts: true}}, [2][]int{} // waiting: the tensors of open buckets
	closeBucket := func(kind int) {
		b := &open[kind]
		b.Tensors = make([]string, len(waiting[kind]))
		for k, i := range waiting[kind] {
			b.Tensors[k], of[i] = tensors[i].Name, len(buckets)
		}
		buckets, waiting[kind] = append(buckets, *b), waiting[kind][:0]
		*b = Bucket{Experts: kind == 1}
	}
	for i, t := range tensors {
		kind := kindOf(staged.dispatched(t))
		b := &open[kind]
		waiting[kind] = append(waiting[kind], i)
		b.Bytes += t.Shape.Elements() * staged.PerParameter.Gradient
		closes := staged.bucketBytes()
		if len(buckets) == 0 && staged.BucketGradients == 0 {
			closes = min(closes, firstBucket)
		}
		if b.Bytes >= closes {
			closeBucket(kind)
		}
	}
	for kind := range open {
		if len(waiting[kind]) > 0 {
			closeBucket(kind)
		}
	}
	return buckets, of
}

// bucketBytes returns the size in bytes that closes a bucket.
func (staged *Staged) bucketBytes() int64 {
	if staged.BucketGradients > 0 {
		return staged.BucketGradients * staged.PerParameter.Gradient
	}
	return staged.Bucket
}

// ahead cuts a stage into pieces whose parameters are gathered during its first forward; nil if
// they are not.
func (staged *Staged) ahead(st *Stage) []Piece {
	if !staged.gathersAhead() {
		return nil
	}
	var pieces []Piece
	var gradients int64 // of the last piece
	for i := range st.Layers {
		var parameters, experts int64
		for _, t := range st.Held[i] {
			parameters += t.Shape.Elements()
			if staged.dispatched(t) {
				experts += t.Shape.Elements()
			}
		}
		n := len(pieces)
		whole := n == 0 || gradients > 0 && gradients >= staged.bucketBytes()
		if whole && (parameters > 0 || n == 0) {
			n, pieces, gradients = n+1, append(pieces, Piece{}), 0
		}
		narrow, narrowExperts := narrowWeights(st.Layers[i : i+1])
		gradients += parameters * staged.PerParameter.Gradient
		pieces[n-1].Layers++
		pieces[n-1].Bytes += staged.updatedBytes(parameters, narrow)
		pieces[n-1].Experts += staged.updatedBytes(experts, narrowExperts)
	}
	if staged.Network.Group.Expert < 2 {
		pieces = separateExperts(pieces)
	}
	return pieces
}

// separateExperts cuts pieces that hold experts in two, because a collective of its own gathers
// the experts. The layers come with the second piece, so they wait for both. This is for groups
// that do not exchange tokens; otherwise passes are cut at the exchanges.
func separateExperts(pieces []Piece) (list []Piece) {
	for _, p := range pieces {
		if p.Experts > 0 && p.Experts < p.Bytes {
			list = append(list, Piece{Bytes: p.Bytes - p.Experts})
			p.Bytes = p.Experts
		}
		list = append(list, p)
	}
	return list
}

// updated lists the collectives that gather the parameters of a stage after their update: one for each
// bucket of its gradients, in the order of a forward, or one for all. Experts on other devices have collectives
// of their own.
func (staged *Staged) updated(st *Stage) []gatheredBytes {
	var experts int64
	if staged.Network.Group.Dispatches() {
		experts = staged.updatedBytes(st.Experts, st.NarrowExperts)
	}
	rest := staged.updatedBytes(st.Parameters, st.Narrow) - experts
	if st.Parameters == 0 {
		return nil // all is frozen
	}
	if staged.UpdatedAtOnce || staged.UpdatedByOwner {
		return Piece{Bytes: rest + experts, Experts: experts}.collectives()
	}
	totals, all, seen := [2]int64{rest, experts}, [2]int64{}, [2]int64{} // of experts: the second
	for i := range st.Buckets {
		all[st.Buckets[i].kind()] += st.Buckets[i].Bytes
	}
	part := func(kind int) int64 { // of the parameters, in all buckets so far
		return int64(float64(totals[kind]) * (float64(seen[kind]) / float64(all[kind])))
	}
	list, before := make([]gatheredBytes, 0, len(st.Buckets)), [2]int64{part(0), part(1)}
	for i := range slices.Backward(st.Buckets) {
		b := &st.Buckets[i]
		kind := b.kind()
		seen[kind] += b.Bytes
		now := part(kind)
		list, before[kind] = append(list, gatheredBytes{now - before[kind], b.Experts}), now
	}
	return list
}

// kind returns 1 for a bucket of experts, else 0.
func (b *Bucket) kind() int { return kindOf(b.Experts) }

// kindOf returns 1 for experts, else 0.
func kindOf(experts bool) int {
	if experts {
		return 1
	}
	return 0
}

// gathersAhead reports whether updated parameters are gathered during the next forwards. Those
// of second copies are not.
func (staged *Staged) gathersAhead() bool {
	return staged.OverlapGather && staged.Zero >= 1 && staged.Zero <= 2 && staged.sumsGradients() &&
		!staged.WholeLast && staged.Placement.Second == nil
}

// bucketsByLayer returns the buckets of all tensors of a stage, layer by layer. They are given in the order in
// which a backward completes the tensors, from the last to the first.
func bucketsByLayer(held [][]network.Tensor, of []int) [][]int {
	list := make([][]int, len(held))
	slices.Reverse(of)
	for i := range held {
		list[i], of = slices.Clip(of[:len(held[i])]), of[len(held[i]):]
	}
	return list
}
