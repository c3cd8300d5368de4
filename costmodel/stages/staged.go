package stages

import (
	"slices"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// Staged is a workload with all that follows from it for every stage.
type Staged struct {
	Workload
	Stages []Stage
	Tied   []TiedTensor
	// PerParameter is the bytes that a parameter takes.
	PerParameter training.State
	// Sizes are the distinct sizes of microbatches (see SizeOf).
	Sizes  []int64
	sizeOf []int32 // by microbatch, or by replica where these differ
	ranks  int32   // of a replica
}

// A Stage is consecutive layers that are a rank's work for a microbatch.
type Stage struct {
	Layers []network.Layer
	// Held lists the tensors that each layer brings to its rank (see network.Split).
	Held [][]network.Tensor
	// Ranks of a replica hold it: one, or two where there are second copies.
	Ranks []int32
	// Tensors are all of Held in the order in which a backward completes their
	// gradients, with Parameters elements in all.
	Tensors    []network.Tensor
	Parameters int64
	// Experts is how many of Parameters are experts'.
	Experts int64
	// Narrow of Parameters are weights of products in fewer than 16 bits, and NarrowExperts
	// of these are experts'.
	Narrow, NarrowExperts int64
	// Stored is the number of parameters that are stored for it over all replicas:
	// with ZeRO 3 a multiple of their number.
	Stored int64
	// Buckets are what the replicas sum, as a backward completes it. There are
	// none without replicas, and under ZeRO 3.
	Buckets []Bucket
	// BucketOf tells, by layer, which of Buckets every tensor of Held is in.
	BucketOf [][]int
	// Flats are, under ZeRO 3, its own tensors as the replicas share them.
	Flats []Flat
	// Units names, under ZeRO 3, the stages whose parameters are gathered for this
	// one: itself, and the owners of what it is tied to.
	Units []int
	// Ahead are its layers in pieces whose parameters are gathered beside its first
	// forward; nil where they are not.
	Ahead []Piece
	// Segments are the layers in groups that run together.
	Segments []Segment
	// there and back are its all-to-alls in a forward and in a backward; leaves and awaits
	// what goes on beside the parts between them (see wiring.Exchanges).
	forwardExchanges, backwardExchanges []Exchange
	bucketParts, awaitedGathers         []int
}

// A Piece is consecutive layers whose parameters are gathered together.
type Piece struct {
	Layers  int   // in number
	Bytes   int64 // of the parameters
	Experts int64 // of these, those of experts on other devices
}

// A Bucket is gradients that travel together.
type Bucket struct {
	Tensors []string
	Bytes   int64
	Experts bool // that other devices have too, or not
}

// TiedTensor is parameters that more than one rank of a replica holds, and whose
// gradients are summed over them.
type TiedTensor struct {
	Stages  []int
	Tensors []string
	Bytes   int64 // of the gradients
}

// Plan derives the plan.
func (w Workload) Staged() *Staged {
	w.Network = w.Training.MarkRepeated(w.Training.Trained(w.Network), w.pipelineLayers())
	staged := &Staged{Workload: w, PerParameter: w.state()}
	split := w.split()
	for s := range w.Layers {
		st := Stage{Layers: split.Stage(s), Ranks: w.Placement.Ranks(s), Tensors: split.Completed(s)}
		for _, l := range st.Layers {
			st.Held = append(st.Held, split.Held(s, l))
		}
		for _, t := range st.Tensors {
			st.Parameters += t.Shape.Elements()
			if t.Expert {
				st.Experts += t.Shape.Elements()
			}
		}
		st.Stored = st.Parameters
		st.Narrow, st.NarrowExperts = narrowWeights(st.Layers)
		if w.Zero >= 3 {
			st.Flats, st.Units, st.Stored = staged.flats(s, st.Held), staged.owners(split, s), 0
			for _, f := range st.Flats {
				st.Stored += f.Stored
			}
			if len(st.Flats) == 1 {
				st.Flats[0].Narrow = st.Narrow
			}
		} else if staged.sumsGradients() {
			st.Buckets = staged.buckets(st.Tensors)
			st.BucketOf = bucketsByLayer(&st)
		}
		st.Segments, st.Ahead = staged.segments(&st), staged.ahead(&st)
		st.forwardExchanges, st.backwardExchanges = staged.exchanges(st.Layers, graph.Forward), staged.exchanges(st.Layers, graph.Backward)
		if len(st.forwardExchanges) > 0 {
			st.bucketParts, st.awaitedGathers = staged.bucketPartsOf(&st), staged.awaitedGathersOf(&st)
		}
		staged.Stages = append(staged.Stages, st)
	}
	staged.Tied = append(staged.copiesTied(split.Ranks), staged.crossRankTied(split)...)
	staged.findSizes()
	return staged
}

// PlanLike derives the plan of a workload that differs from a planned one in nothing but
// its samples, its ZeRO stage below 3, its replicas where both have some, and its
// recomputation where experts and operands are not of that. They share the stages.
func (w Workload) StagedLike(staged *Staged) *Staged {
	w.Network = staged.Network
	like := &Staged{Workload: w, Stages: staged.Stages, Tied: staged.Tied, PerParameter: staged.PerParameter}
	like.findSizes()
	return like
}

// sortSizes finds the distinct sizes of microbatches.
func (staged *Staged) findSizes() {
	list := staged.Shards
	if list == nil {
		list = staged.Samples
	}
	for _, n := range list {
		i := slices.Index(staged.Sizes, n)
		if i < 0 {
			i, staged.Sizes = len(staged.Sizes), append(staged.Sizes, n)
		}
		staged.sizeOf = append(staged.sizeOf, int32(i))
	}
	staged.ranks = 1 + slices.Max(slices.Concat([]int32{0}, staged.Placement.First, staged.Placement.Second))
}

// SizeOf tells which of Sizes the microbatch of a task has.
func (staged *Staged) SizeOf(t *graph.Task) int32 {
	if staged.Shards != nil {
		return staged.sizeOf[t.Rank/staged.ranks]
	}
	return staged.sizeOf[t.Microbatch]
}

// FLOPs are what all devices of all replicas execute in a step: F, I and W of every
// layer, what is run again, and what a backward in two passes does twice. Devices of an
// expert group count as the mean of them.
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

// executed sums what a pass of operations computes for a sample, on the mean device: of
// attention what its kernel covers.
func (staged *Staged) executed(ops []network.Op, pass network.Pass) float64 {
	sum := -staged.Network.Surplus(ops, pass)
	for _, o := range ops {
		sum += float64(o.FLOPs(pass)) * o.Covered()
	}
	return sum
}

// TakesAll reports whether a stage takes all microbatches at once.
func (staged *Staged) TakesAll(stage int) bool {
	return staged.WholeLast && stage == len(staged.Stages)-1
}

// Gathers reports whether parameters are sharded, so that every use gathers them.
func (staged *Staged) Gathers() bool { return staged.Zero >= 3 && staged.holders() > 1 }

// Share is what one device holds of bytes that are sharded from a ZeRO stage
// on, rounded up.
func (staged *Staged) Share(bytes int64, from int) int64 {
	if staged.Zero < from {
		return bytes
	}
	return roundUp(bytes, int64(staged.holders())) / int64(staged.holders())
}

// roundUp finds the next multiple.
func roundUp(n, of int64) int64 { return (n + of - 1) / of * of }

// owners lists the stages of its rank whose tensors a stage uses: itself, and
// the owners of what is tied.
func (staged *Staged) owners(split Split, stage int) []int {
	owners := []int{stage}
	for _, l := range split.Stage(stage) {
		for _, t := range l.Tied {
			o := split.Owner(t.Name)
			if o >= 0 && staged.Placement.Together(o, stage) && !slices.Contains(owners, o) {
				owners = append(owners, o)
			}
		}
	}
	return owners
}

// ties lists the parameters that stages on several ranks use.
func (staged *Staged) crossRankTied(split Split) []TiedTensor {
	var tied []TiedTensor
	for s := range staged.Stages {
		for _, l := range staged.Stages[s].Layers {
			for _, t := range l.Tied {
				if owner := split.Owner(t.Name); owner >= 0 && split.Ranks[owner] != split.Ranks[s] {
					tied = append(tied, TiedTensor{[]int{owner, s}, []string{t.Name}, t.Shape.Elements() * staged.PerParameter.Gradient})
				}
			}
		}
	}
	return tied
}

// copies lists what is summed over the two copies of all stages: for every pair
// of ranks, which hold the same, all of their gradients, or their shares of these.
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
