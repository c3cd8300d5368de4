package graph

import "slices"

// A Placement says on which ranks of a replica the stages are.
//
// Some schedules hold every stage twice, and send the two halves of the
// microbatches through the ranks in opposite directions: DualPipe and Chimera.
// Both copies of a stage have its number. The microbatch of an action determines the copy
// that it runs on:
//
//	rank 0   0F0 ·   ·   3F1        microbatch 0 goes down the ranks,
//	rank 1   ·   1F0 2F1 ·          microbatch 1 comes up
//	rank 2   ·   1F1 2F0 ·
//	rank 3   0F1 ·   ·   3F0
//
// At the end of a step the two copies' gradients are summed over every pair of
// ranks.
type Placement struct {
	// First is the rank of every stage, or of its first copy.
	First []int32
	// Second is the rank of every stage's second copy; nil if stages have one copy.
	Second []int32
	// Half is the first microbatch that runs on second copies.
	Half int32
}

// InOrder places stage s on rank s.
func InOrder(ranks int) Placement {
	p := Placement{First: make([]int32, ranks)}
	for s := range p.First {
		p.First[s] = int32(s)
	}
	return p
}

// TwoCopies places every stage twice, for one half of the microbatches each.
func TwoCopies(first, second []int32, microbatches int) Placement {
	return Placement{First: first, Second: second, Half: int32(microbatches+1) / 2}
}

// Stages is the number of stages.
func (p Placement) Stages() int { return len(p.First) }

// Equal reports whether all stages are on the same ranks.
func (p Placement) Equal(q Placement) bool {
	return slices.Equal(p.First, q.First) && slices.Equal(p.Second, q.Second)
}

// Rank is the rank of a stage for a microbatch.
func (p Placement) Rank(stage, microbatch int32) int32 {
	if p.Second != nil && microbatch >= p.Half {
		return p.Second[stage]
	}
	return p.First[stage]
}

// Copy returns the number of the copy of a stage that a microbatch runs on. First copies of
// all stages are numbered first, then second copies.
func (p Placement) Copy(stage, microbatch int32) int {
	if p.Second != nil && microbatch >= p.Half {
		return len(p.First) + int(stage)
	}
	return int(stage)
}

// Ranks lists the ranks that hold a stage.
func (p Placement) Ranks(stage int) []int32 {
	if p.Second == nil {
		return p.First[stage : stage+1]
	}
	return []int32{p.First[stage], p.Second[stage]}
}

// Holds reports whether a rank has a copy of a stage.
func (p Placement) Holds(rank, stage int32) bool {
	return p.First[stage] == rank || p.Second != nil && p.Second[stage] == rank
}

// Together reports whether two stages are on the same rank, so that no message passes between
// them. Their second copies are then on the same rank too.
func (p Placement) Together(a, b int) bool { return p.First[a] == p.First[b] }

// Receives reports whether the input of a task came in a message: the activations
// of an F from the stage before, or the gradient of a B or I from the stage after.
func (p Placement) Receives(t *Task) bool {
	from := t.Stage + 1
	switch {
	case t.Kind == Forward:
		from = t.Stage - 1
	case t.Kind != Backward && t.Kind != InputGradient:
		return false
	}
	return t.Part == 0 && from >= 0 && int(from) < p.Stages() && !p.Together(int(t.Stage), int(from))
}

// LowestRanks returns, for every stage, the lowest rank that holds it. Stages with the same
// lowest rank share all their ranks.
func (p Placement) LowestRanks() []int32 {
	if p.Second == nil {
		return p.First
	}
	lowest := make([]int32, len(p.First))
	for s := range lowest {
		lowest[s] = min(p.First[s], p.Second[s])
	}
	return lowest
}
