package stages

import (
	"slices"

	"psim/costmodel/frozen"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// Staged is a workload with everything that follows from it for every stage.
type Staged struct {
	Workload
	Stages []Stage
	Tied   []TiedTensor
	// PerParameter is the bytes of one parameter.
	PerParameter training.State
	// Sizes are the distinct sizes of microbatches (see SizeOf).
	Sizes  []int64
	sizeOf []int32 // indices of Sizes, by microbatch, or by replica if replicas differ; nil if there is one
	ranks  int32   // of a replica
}

// A Stage is a run of layers that a rank computes in one pass for each microbatch.
type Stage struct {
	Layers []network.Layer
	// Held lists, by layer, the tensors that the layer brings to its rank (see Split).
	Held [][]network.Tensor
	// Ranks are the ranks of a replica that hold the stage: one, or two with second copies.
	Ranks []int32
	// Tensors are all of Held in the order in which a backward completes their gradients.
	Tensors    []network.Tensor
	Parameters int64 // elements of Tensors
	Experts    int64 // those of Parameters that belong to experts
	// Frozen are the parameters that are not trained. They are in none of the above.
	Frozen frozen.Counts
	// States is the bytes of the optimizer's states that depend on shapes, UpdateFLOPs and UpdateProducts are
	// those of its products. Widest is the number of parameters of the largest layer.
	States         int64
	UpdateFLOPs    float64
	UpdateProducts int
	Widest         int64
	// Unpacked is the bytes of the largest 16-bit weight that a product makes of a packed one.
	Unpacked int64
	// Narrow is the number of Parameters that are weights of products in fewer than 16 bits,
	// NarrowExperts the number of them that belong to experts.
	Narrow, NarrowExperts int64
	// Stored is the number of parameters stored for the stage over all replicas: Parameters,
	// or under ZeRO 3 a multiple of the number of replicas.
	Stored int64
	// Buckets are the gradients that replicas sum together, in the order in which a backward
	// completes them. There are none with one replica, and none under ZeRO 3.
	Buckets []Bucket
	// BucketOf is the index in Buckets of every tensor of Held.
	BucketOf [][]int
	// Flats are, under ZeRO 3, the stage's own tensors as the replicas share them.
	Flats []Flat
	// Units lists, under ZeRO 3, the stages whose parameters are gathered for this one: the
	// stage itself, and the owners of its tied tensors.
	Units []int
	// Ahead are pieces of the stage whose parameters are gathered during its first forward;
	// nil if they are gathered before it.
	Ahead []Piece
	// Segments are the layers in groups that run together.
	Segments []Segment

	forwardExchanges, backwardExchanges []Exchange
	bucketParts                         []int // by bucket, the part of a backward that completes it
	awaitedGathers                      []int // by part of a forward, the gathers that end before it
}

// A Piece is a run of layers whose parameters are gathered together.
type Piece struct {
	Layers  int   // the number of layers
	Bytes   int64 // of their parameters
	Experts int64 // those of Bytes that belong to experts on other devices
}

// A Bucket is gradients that one collective sums.
type Bucket struct {
	Tensors []string
	Bytes   int64
	Experts bool // the gradients belong to experts that are divided differently from the rest
}

// TiedTensor is parameters that more than one rank of a replica holds. Their gradients are
// summed over these ranks.
type TiedTensor struct {
	Stages  []int
	Tensors []string
	Bytes   int64 // of the gradients
}

// Staged derives everything that follows from the workload.
func (w Workload) Staged() *Staged {
	w.Network = w.Training.Trained(w.Network)
	w.takeLossOut()
	w.Network = w.Training.MarkRepeated(w.Network, w.pipelineLayers())
	return w.staged(&Known{}, "")
}

// StagedFrom is Staged for a workload without Loop and recompute_layers, whose network is already as it is trained.
// It takes stages from known, and adds others to it. recompute is the recomputation if that repeats exchanges with
// experts or decides which operands are kept, else empty.
func (w Workload) StagedFrom(known *Known, recompute string) *Staged {
	return w.staged(known, recompute)
}

// staged derives everything but the network.
func (w Workload) staged(known *Known, recompute string) *Staged {
	staged := &Staged{Workload: w, PerParameter: w.state(), Stages: make([]Stage, len(w.Layers))}
	p, first := planner{staged, w.split(), layerKinds{staged: staged}, recompute}, 0
	for s, n := range w.Layers {
		staged.Stages[s] = known.stage(&p, s, first)
		first += n
	}
	staged.Tied = append(staged.copiesTied(p.split.Ranks), staged.crossRankTied(p.split)...)
	staged.findSizes()
	return staged
}

// takeLossOut makes the loss a layer of its own if Loop is set.
func (w *Workload) takeLossOut() {
	if !w.Loop {
		return
	}
	if layers, ok := w.Network.LossApart(); ok {
		w.Network.Layers, w.Layers = layers, slices.Clone(w.Layers)
		w.Layers[len(w.Layers)-1]++
		if n := len(w.PipelineLayers); n > 0 {
			w.PipelineLayers = slices.Clone(w.PipelineLayers)
			w.PipelineLayers[n-1]++
		}
	}
}

// LossApart reports whether a stage has the loss, as a task of its own.
func (staged *Staged) LossApart(stage int) bool { return staged.Loop && stage == len(staged.Stages)-1 }

// Unsplit reports whether the I of a stage does nothing and its W is the whole backward.
func (staged *Staged) Unsplit(stage int) bool {
	return stage == 0 && staged.Training.Split == training.SplitStage
}

// hold finds the tensors of a stage and, below ZeRO 3, their buckets.
func (staged *Staged) hold(st *Stage, split Split, s int) {
	st.Tensors = split.Completed(s)
	for i := range split.Stage(s) {
		st.Held = append(st.Held, split.Held(s, i))
		staged.addStates(st, split.Stage(s)[i], st.Held[i])
		for _, t := range split.frozen(s, i) {
			st.Frozen[t.Format] += t.Shape.Elements()
		}
	}
	for _, t := range st.Tensors {
		st.Parameters += t.Shape.Elements()
		if t.Expert {
			st.Experts += t.Shape.Elements()
		}
	}
	if staged.Zero < 3 && staged.sumsGradients() {
		var of []int
		st.Buckets, of = staged.buckets(st.Tensors)
		st.BucketOf = bucketsByLayer(st.Held, of)
	}
}

// plan derives what follows from the layers of a stage and the tensors that it holds.
func (staged *Staged) plan(st *Stage, split Split, s int, layers *layerKinds) {
	st.Layers, st.Ranks, st.Stored = split.Stage(s), staged.Placement.Ranks(s), st.Parameters
	st.Narrow, st.NarrowExperts = narrowWeights(st.Layers)
	st.Unpacked = unpacked(st.Layers)
	if staged.Zero >= 3 {
		st.Flats, st.Units = staged.addFrozen(staged.flats(s, st.Held), split, s), staged.owners(split, s)
		staged.pad(st)
		staged.narrow(st)
	}
	st.forwardExchanges, st.backwardExchanges = layers.forward(st.Layers), layers.backward(st.Layers)
	st.Segments, st.Ahead = staged.segments(st), staged.ahead(st)
	if len(st.forwardExchanges) > 0 {
		st.bucketParts, st.awaitedGathers = layers.bucketParts(st), layers.awaitedGathers(st)
	}
}

// StagedLike is Staged for a workload that shares its stages with another one. They may differ
// only in samples, in a ZeRO stage below 3, in the number of replicas if both have several, and
// in recomputation if it changes neither experts nor operands.
func (w Workload) StagedLike(staged *Staged) *Staged {
	w.Network, w.Layers = staged.Network, staged.Layers
	like := &Staged{Workload: w, Stages: staged.Stages, Tied: staged.Tied, PerParameter: staged.PerParameter}
	like.findSizes()
	return like
}

// findSizes finds the distinct sizes of microbatches.
func (staged *Staged) findSizes() {
	list := staged.Shards
	if list == nil {
		list = staged.Samples
	}
	for _, n := range list {
		if !slices.Contains(staged.Sizes, n) {
			staged.Sizes = append(staged.Sizes, n)
		}
	}
	if len(staged.Sizes) > 1 {
		for _, n := range list {
			staged.sizeOf = append(staged.sizeOf, int32(slices.Index(staged.Sizes, n)))
		}
	}
	staged.ranks = 1 + slices.Max(slices.Concat([]int32{0}, staged.Placement.First, staged.Placement.Second))
}

// SizeOf returns the index in Sizes of a task's microbatch.
func (staged *Staged) SizeOf(t *graph.Task) int32 {
	if staged.sizeOf == nil {
		return 0
	}
	if staged.Shards != nil {
		return staged.sizeOf[t.Rank/staged.ranks]
	}
	return staged.sizeOf[t.Microbatch]
}

// FLOPs is the number of FLOPs that all devices of all replicas execute in a step: F, I and W of
// every layer, repeated operations, and the ones that a backward in two passes runs twice. Of
// an expert group it is the mean device that counts.
func (staged *Staged) FLOPs() float64 {
	var perSample float64 // of one device of a rank
	for _, l := range staged.Network.Layers {
		for pass := range network.WeightGradient + 1 {
			perSample += staged.executed(l.Ops, pass)
		}
		perSample += staged.executed(staged.Training.Repeated(l), network.Forward)
		if staged.Training.TwoPass() {
			perSample += staged.executed(l.Rewalked(), network.InputGradient)
		}
	}
	return perSample * float64(staged.Total()) * float64(staged.Network.Group.All())
}

// executed returns the FLOPs of a pass of operations for a sample on the mean device. Attention
// counts only the tiles that its kernel computes.
func (staged *Staged) executed(ops []network.Op, pass network.Pass) float64 {
	sum := -staged.Network.Surplus(ops, pass)
	for _, o := range ops {
		sum += o.FLOPs(pass) * o.Covered()
	}
	return sum
}

// FrozenBytes returns the bytes that a device holds of a stage's frozen parameters. ZeRO 3 shards them.
func (staged *Staged) FrozenBytes(st *Stage) int64 {
	if staged.Gathers() && staged.Network.Group.Dispatches() {
		return staged.shareOfFlats(st, func(f *Flat) int64 { return f.Frozen })
	}
	return staged.Share(st.Frozen.Bytes(staged.Training.ActivationElement()), 3)
}

// TakesAll reports whether a stage takes all microbatches at once.
func (staged *Staged) TakesAll(stage int) bool {
	return staged.WholeLast && stage == len(staged.Stages)-1
}

// Gathers reports whether parameters are sharded, so that every use gathers them.
func (staged *Staged) Gathers() bool { return staged.Zero >= 3 && staged.holders() > 1 }

// Share returns the bytes that one device holds of a state that is sharded from a ZeRO stage on,
// rounded up.
func (staged *Staged) Share(bytes int64, from int) int64 {
	n := staged.Sharers(from)
	return roundUp(bytes, n) / n
}

// Sharers returns the number of devices that share a state that is sharded from a ZeRO stage on.
func (staged *Staged) Sharers(from int) int64 {
	if staged.Zero < from {
		return 1
	}
	return int64(staged.sharers())
}

// roundUp returns the next multiple of a unit.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// owners lists the stages on the same rank whose tensors a stage uses: itself, and those that
// bring tied tensors to the rank.
func (staged *Staged) owners(split Split, stage int) []int {
	owners := []int{stage}
	for _, l := range split.Stage(stage) {
		for _, t := range slices.Concat(l.Tied, l.FrozenTied) {
			if at, _ := split.holder(stage, t.Name); !slices.Contains(owners, at) {
				owners = append(owners, at)
			}
		}
	}
	return owners
}

// crossRankTied lists the parameters that stages on different ranks use, each once: a sum takes
// the gradients of all these ranks.
func (staged *Staged) crossRankTied(split Split) (tied []TiedTensor) {
	at := map[string]int{}
	for s := range staged.Stages {
		for i, l := range staged.Stages[s].Layers {
			for _, t := range l.Tied {
				owner := split.Owner(t.Name)
				if owner < 0 || !split.brings(s, i, t) {
					continue
				}
				k, ok := at[t.Name]
				if !ok {
					k, at[t.Name] = len(tied), len(tied)
					bytes := t.Shape.Elements() * staged.PerParameter.Gradient
					tied = append(tied, TiedTensor{[]int{owner}, []string{t.Name}, bytes})
				}
				tied[k].Stages = append(tied[k].Stages, s)
			}
		}
	}
	return tied
}

// copiesTied lists the sums over the two copies of all stages. There is one for each pair of
// ranks that hold the same stages, with all of their gradients or their shares of these.
func (staged *Staged) copiesTied(lowest []int32) []TiedTensor {
	var copies []TiedTensor
	at := map[int32]int{} // by the lower rank of the pair
	for s := range staged.Placement.Second {
		i, ok := at[lowest[s]]
		if !ok {
			i, at[lowest[s]] = len(copies), len(copies)
			copies = append(copies, TiedTensor{})
		}
		c, st := &copies[i], &staged.Stages[s]
		c.Stages = append(c.Stages, s)
		c.Bytes += staged.ShareOf(st, staged.PerParameter.Gradient, 1)
		for _, t := range st.Tensors {
			c.Tensors = append(c.Tensors, t.Name)
		}
	}
	return copies
}
