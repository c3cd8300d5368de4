package stages

import "psim/costmodel/network"

// firstBucket closes the first bucket of a limit in bytes, which PyTorch keeps small so that
// the first collective starts early.
const firstBucket = 1 << 20

// buckets joins the gradients of tensors, in the order in which they become
// complete, into what travels together. A bucket is closed when it has reached
// Bucket bytes, so it may exceed it; the first closes at 1 MiB. A limit of 0 keeps
// every tensor by itself (Li et al. 2020, "PyTorch Distributed", section 3.2.2;
// PyTorch's reducer). With BucketGradients it is closed at so many, the first one, too
// (Megatron-LM, megatron/core/distributed/param_and_grad_buffer.py).
//
// Gradients of experts that are divided among devices by themselves have buckets of their
// own.
func (staged *Staged) buckets(tensors []network.Tensor) []Bucket {
	var buckets []Bucket
	open := []Bucket{{}, {Experts: true}}
	for _, t := range tensors {
		of := 0
		if staged.dispatched(t) {
			of = 1
		}
		b := &open[of]
		b.Tensors = append(b.Tensors, t.Name)
		b.Bytes += t.Shape.Elements() * staged.PerParameter.Gradient
		closes := staged.bucketBytes()
		if len(buckets) == 0 && staged.BucketGradients == 0 {
			closes = min(closes, firstBucket)
		}
		if b.Bytes >= closes {
			buckets, open[of] = append(buckets, *b), Bucket{Experts: of == 1}
		}
	}
	for _, b := range open {
		if len(b.Tensors) > 0 {
			buckets = append(buckets, b)
		}
	}
	return buckets
}

// bucketBytes returns the size that closes a bucket.
func (staged *Staged) bucketBytes() int64 {
	if staged.BucketGradients > 0 {
		return staged.BucketGradients * staged.PerParameter.Gradient
	}
	return staged.Bucket
}

// ahead cuts a stage into pieces whose parameters are gathered beside its first forward.
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

// separateExperts cuts pieces whose experts are gathered by themselves: nothing runs before these are
// there, too. Where tokens are exchanged passes are cut otherwise.
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

// gathersAhead reports whether updated parameters are gathered beside the next forwards;
// those of second copies are not.
func (staged *Staged) gathersAhead() bool {
	return staged.OverlapGather && staged.Zero >= 1 && staged.Zero <= 2 && staged.sumsGradients() && !staged.WholeLast && staged.Placement.Second == nil
}

// bucketByTensor tells which bucket the gradient of each tensor is in.
func bucketByTensor(buckets []Bucket) map[string]int {
	of := map[string]int{}
	for k, b := range buckets {
		for _, name := range b.Tensors {
			of[name] = k
		}
	}
	return of
}

// bucketsByLayer finds those of all tensors of a stage.
func bucketsByLayer(st *Stage) [][]int {
	of, list := bucketByTensor(st.Buckets), make([][]int, len(st.Held))
	for i, held := range st.Held {
		for _, t := range held {
			list[i] = append(list[i], of[t.Name])
		}
	}
	return list
}
