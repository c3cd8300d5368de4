package stages

import (
	"slices"

	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// A Plan is a workload with all that follows from it for every stage.
type Plan struct {
	Workload
	Stages []Stage
	Tied   []Tied
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
	there, back    []Exchange
	leaves, awaits []int
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

// Tied is parameters that more than one rank of a replica holds, and whose
// gradients are summed over them.
type Tied struct {
	Stages  []int
	Tensors []string
	Bytes   int64 // of the gradients
}

// Plan derives the plan.
func (w Workload) Plan() *Plan {
	w.Network = w.Training.Units(w.Training.Asked(w.Network), w.pipelined())
	p := &Plan{Workload: w, PerParameter: w.state()}
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
			st.Flats, st.Units, st.Stored = p.flats(s, st.Held), p.owners(split, s), 0
			for _, f := range st.Flats {
				st.Stored += f.Stored
			}
			if len(st.Flats) == 1 {
				st.Flats[0].Narrow = st.Narrow
			}
		} else if p.summed() {
			st.Buckets = p.buckets(st.Tensors)
			st.BucketOf = bucketsOf(&st)
		}
		st.Segments, st.Ahead = p.segments(&st), p.ahead(&st)
		st.there, st.back = p.exchanges(st.Layers, graph.Forward), p.exchanges(st.Layers, graph.Backward)
		if len(st.there) > 0 {
			st.leaves, st.awaits = p.leaves(&st), p.awaits(&st)
		}
		p.Stages = append(p.Stages, st)
	}
	p.Tied = append(p.copies(split.Ranks), p.ties(split)...)
	p.sortSizes()
	return p
}

// PlanLike derives the plan of a workload that differs from a planned one in nothing but
// its samples, its ZeRO stage below 3, its replicas where both have some, and its
// recomputation where experts and operands are not of that. They share the stages.
func (w Workload) PlanLike(p *Plan) *Plan {
	w.Network = p.Network
	like := &Plan{Workload: w, Stages: p.Stages, Tied: p.Tied, PerParameter: p.PerParameter}
	like.sortSizes()
	return like
}

// sortSizes finds the distinct sizes of microbatches.
func (p *Plan) sortSizes() {
	list := p.Shards
	if list == nil {
		list = p.Samples
	}
	for _, n := range list {
		i := slices.Index(p.Sizes, n)
		if i < 0 {
			i, p.Sizes = len(p.Sizes), append(p.Sizes, n)
		}
		p.sizeOf = append(p.sizeOf, int32(i))
	}
	p.ranks = 1 + slices.Max(slices.Concat([]int32{0}, p.Placement.First, p.Placement.Second))
}

// SizeOf tells which of Sizes the microbatch of a task has.
func (p *Plan) SizeOf(t *graph.Task) int32 {
	if p.Shards != nil {
		return p.sizeOf[t.Rank/p.ranks]
	}
	return p.sizeOf[t.Microbatch]
}

// FLOPs are what all devices of all replicas execute in a step: F, I and W of every
// layer, what is run again, and what a backward in two passes does twice. Devices of an
// expert group count as the mean of them.
func (p *Plan) FLOPs() float64 {
	var perSample float64 // of one device of a rank
	for _, l := range p.Network.Layers {
		for pass := range network.WeightGradient + 1 {
			perSample += p.executed(l.Ops, pass)
		}
		perSample += p.executed(p.Training.Repeated(l), network.Forward)
		if p.Training.TwoPass() {
			perSample += p.executed(l.Rewalked(), network.InputGradient)
		}
	}
	return perSample * float64(p.Total()) * float64(p.Network.Group.All())
}

// executed sums what a pass of operations computes for a sample, on the mean device: of
// attention what its kernel covers.
func (p *Plan) executed(ops []network.Op, pass network.Pass) float64 {
	sum := -p.Network.Surplus(ops, pass)
	for _, o := range ops {
		sum += float64(o.FLOPs(pass)) * o.Covered()
	}
	return sum
}

// Whole reports whether a stage takes all microbatches at once.
func (p *Plan) Whole(stage int) bool { return p.WholeLast && stage == len(p.Stages)-1 }

// Gathers reports whether parameters are sharded, so that every use gathers them.
func (p *Plan) Gathers() bool { return p.Zero >= 3 && p.holders() > 1 }

// Share is what one device holds of bytes that are sharded from a ZeRO stage
// on, rounded up.
func (p *Plan) Share(bytes int64, from int) int64 {
	if p.Zero < from {
		return bytes
	}
	return roundUp(bytes, int64(p.holders())) / int64(p.holders())
}

// roundUp finds the next multiple.
func roundUp(n, of int64) int64 { return (n + of - 1) / of * of }

// owners lists the stages of its rank whose tensors a stage uses: itself, and
// the owners of what is tied.
func (p *Plan) owners(split network.Split, stage int) []int {
	owners := []int{stage}
	for _, l := range split.Stage(stage) {
		for _, t := range l.Tied {
			o := split.Owner(t.Name)
			if o >= 0 && p.Placement.Together(o, stage) && !slices.Contains(owners, o) {
				owners = append(owners, o)
			}
		}
	}
	return owners
}

// ties lists the parameters that stages on several ranks use.
func (p *Plan) ties(split network.Split) []Tied {
	var tied []Tied
	for s := range p.Stages {
		for _, l := range p.Stages[s].Layers {
			for _, t := range l.Tied {
				if owner := split.Owner(t.Name); owner >= 0 && split.Ranks[owner] != split.Ranks[s] {
					tied = append(tied, Tied{[]int{owner, s}, []string{t.Name}, t.Shape.Elements() * p.PerParameter.Gradient})
				}
			}
		}
	}
	return tied
}

// copies lists what is summed over the two copies of all stages: for every pair
// of ranks, which hold the same, all of their gradients, or their shares of these.
func (p *Plan) copies(lowest []int32) []Tied {
	var copies []Tied
	at := map[int32]int{} // by the lower rank of the pair
	for s := range p.Placement.Second {
		i, ok := at[lowest[s]]
		if !ok {
			i, at[lowest[s]] = len(copies), len(copies)
			copies = append(copies, Tied{})
		}
		c, st := &copies[i], &p.Stages[s]
		c.Stages = append(c.Stages, s)
		c.Bytes += p.ShareOf(st, p.PerParameter.Gradient, 1)
		for _, t := range st.Tensors {
			c.Tensors = append(c.Tensors, t.Name)
		}
	}
	return copies
}
