package wiring

import "psim/schedules/graph"

// Sync says how the gradients of data-parallel replicas are summed. It has no effect if every
// parameter is held by one device only, or without buckets and units.
type Sync struct {
	// Buckets[s] lists the sizes in bytes of the pieces in which the
	// gradients of stage s are sent, in the order in which a backward completes
	// them: one per parameter tensor, or PyTorch's buckets.
	Buckets [][]int64
	// Experts[s] says which of the stage's buckets are gradients of experts, or with Units which of
	// its collectives are of experts. Only the replicas that hold the same experts take part in
	// these. Nil means that none is.
	Experts [][]bool
	// ExpertWidth is the number of devices of a rank that hold the same experts; 0 means 1.
	ExpertWidth int
	// Parameters[s] lists the sizes in bytes of the pieces in which a sharded optimizer
	// gathers the parameters of stage s after its update. ParameterExperts[s] says which of these
	// pieces are of experts; nil means that no piece is.
	Parameters       [][]int64
	ParameterExperts [][]bool
	// Ahead[s] lists, in the order of a forward, the sizes in bytes of the pieces in which
	// a sharded optimizer's parameters of stage s are gathered at the beginning of the
	// next step. The first forward of the stage is cut into as many parts, and each part waits
	// for its own piece. Nil means that parameters are gathered at the end of the step.
	Ahead [][]int64
	// AheadExperts[s] says which of these pieces are of experts; nil means that no piece is.
	AheadExperts [][]bool
	// Broadcast[s] lists the sizes in bytes of the pieces in which the first replica's
	// parameters of stage s are sent to the others before the step; nil means that they are not
	// sent. It needs Buckets. A rank computes nothing before it has received the last piece.
	Broadcast [][]int64
	// Width is the number of devices of every rank that hold the same parameters, and take part
	// in the same collectives; 0 means 1.
	Width int
	// Overlap slices the last backward of every stage, one slice per bucket,
	// so that a bucket leaves while the next is computed.
	Overlap bool
	// Sharded is ZeRO stages 1 and 2: gradients are reduce-scattered and the
	// updated parameters gathered (Rajbhandari et al. 2020, section 7).
	Sharded bool
	// ShardSpan is the number of neighbouring replicas among which states are divided, if every such
	// group holds all of them; 0 means all replicas. It needs NoReduceScatter or Units. With Units a group
	// holds everything: it gathers and scatters by itself, and replicas at the same place of their groups then
	// sum their shares (PyTorch's hybrid sharding; Zhao et al. 2023, section 3.2.2).
	ShardSpan int
	// EveryMicrobatch is ZeRO stage 2: a rank holds the whole gradients of at most one
	// microbatch, so they are summed after each, not only the last.
	EveryMicrobatch bool
	// Units is ZeRO stage 3, by stage: every stage is gathered before it is
	// used. Units replace Buckets and Parameters, and imply Sharded and, without Once, EveryMicrobatch.
	Units []Unit
	// Once: gradients of units are added up whole, and scattered with the last microbatch. It needs Overlap.
	Once bool
	// NoReduceScatter is for libraries that lack the collective, such as Gloo:
	// gradients that would be reduce-scattered are all-reduced, and each rank
	// keeps its share of the sum.
	NoReduceScatter bool
	// Staging copies the tensors of every collective to the host before it, and back after it.
	Staging bool
}

// active reports whether there is anything to sum.
func (s Sync) active(shape graph.Shape) bool {
	return s.Buckets != nil && (s.members(shape) > 1 || s.ExpertWidth > 1)
}

func (s Sync) width() int { return max(1, s.Width) }

// members counts the devices that hold the same parameters.
func (s Sync) members(shape graph.Shape) int { return max(1, shape.Replicas) * s.width() }

// sharers counts the devices among which the state of a parameter is divided.
func (s Sync) sharers(shape graph.Shape) int {
	if s.ShardSpan > 0 {
		return s.ShardSpan * s.width()
	}
	return s.members(shape)
}

// acrossGroups reports whether sums of gradients go on between the groups that divide them.
func (s Sync) acrossGroups() bool { return s.Units != nil && s.ShardSpan > 0 }

// isExpert reports whether a bucket is gradients of experts, or a collective of a unit is of experts.
func (s Sync) isExpert(stage int32, bucket int) bool {
	return s.Experts != nil && s.Experts[stage][bucket]
}

// aheadIsExpert reports whether a piece that is gathered ahead is of experts.
func (s Sync) aheadIsExpert(stage int32, piece int) bool {
	return s.AheadExperts != nil && s.AheadExperts[stage][piece]
}

// UpdatedIsExpert reports whether a piece that is gathered after the update is of experts.
func (s *Sync) UpdatedIsExpert(stage int32, piece int) bool {
	return s.ParameterExperts != nil && s.ParameterExperts[stage][piece]
}

// Kind is the collective that sums gradients.
func (s Sync) Kind() graph.Kind {
	if s.Sharded && !s.NoReduceScatter {
		return graph.ReduceScatter
	}
	return graph.AllReduce
}

// A Unit is a stage whose parameters are sharded over the replicas: ZeRO stage
// 3, PyTorch's fully sharded data parallelism (Rajbhandari et al. 2020,
// section 5.3; Zhao et al. 2023, "PyTorch FSDP").
//
// Before each F, and each B or I, of the stage one or several all-gathers make
// its parameters whole; they are freed when that task ends. After each B or W one or several
// reduce-scatters leave every replica with its share of the sum. Both
// carry the stage, the microbatch and their number. They run one after another, as the collectives of
// one communicator do, in the order in which a program calls them. The average and the optimizer then work
// on shares, and nothing is gathered after them. A stage without parameters
// has no collectives.
//
// Without Sync.Overlap the tasks of a rank run strictly one after another. With it at
// most two units are whole at any time: the gather for a use waits for the end
// of the use before the last, and a backward for the sum of the gradients
// before the last.
type Unit struct {
	// Gather lists the sizes in bytes of the whole parameters that a use needs, by collective:
	// one vector, or every tensor separately; experts on other devices have a vector of their own.
	Gather []int64
	// Scatter lists the sizes in bytes of the whole gradients that a backward makes.
	Scatter []int64
	// Share is the size in bytes of the summed gradients that a replica keeps
	// for this stage.
	Share int64
}

// Derived returns the settings with the fields that units imply.
func (s Sync) Derived() Sync {
	if s.Units == nil {
		return s
	}
	s.Sharded, s.EveryMicrobatch, s.Parameters = true, !s.Once, nil
	s.Buckets = make([][]int64, len(s.Units))
	for i, u := range s.Units {
		s.Buckets[i] = u.Scatter
	}
	return s
}
