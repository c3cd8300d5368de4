package memory

import (
	"slices"
	"time"

	"psim/costmodel/stages"
	"psim/costmodel/training"
	"psim/schedules/graph"
)

// Breakdown is bytes of memory by use.
type Breakdown struct {
	// Parameters are weights in the precision of training: a rank's own, those that ZeRO 3
	// has gathered for a task, and stashed versions.
	Parameters int64
	// Gradients are sums over microbatches, and under ZeRO 2 and 3 also whole gradients that
	// wait to be scattered.
	Gradients int64
	// Optimizer is moments, and in mixed precision fp32 weights.
	Optimizer int64
	// Activations are tensors that passes make and keep, their gradients, and received
	// messages.
	Activations int64
	// Buffers are the working memory of collectives and of the communication library.
	Buffers int64
	// Context is the memory of driver and libraries, and the reserve of the allocator.
	Context int64
}

// Sum is the total.
func (b Breakdown) Sum() int64 {
	return b.Parameters + b.Gradients + b.Optimizer + b.Activations + b.Buffers + b.Context
}

// add adds another breakdown.
func (b *Breakdown) add(c Breakdown) {
	b.Parameters += c.Parameters
	b.Gradients += c.Gradients
	b.Optimizer += c.Optimizer
	b.Activations += c.Activations
	b.Buffers += c.Buffers
	b.Context += c.Context
}

// times returns n times the bytes.
func (b Breakdown) times(n int64) Breakdown {
	return Breakdown{
		b.Parameters * n, b.Gradients * n, b.Optimizer * n, b.Activations * n, b.Buffers * n, b.Context * n,
	}
}

// PersistentBreakdown returns the memory that every rank holds from step to step: parameters,
// gradients and optimizer state, sharded over the replicas as Zero says (Rajbhandari et al.
// 2020, figure 1). Shares are rounded up: to a byte, or under ZeRO 3 to a parameter of every
// flat. The simplified ZeRO 3 holds the whole tensors as well. The memory of the process that
// is not in tensors counts once for every rank.
func PersistentBreakdown(staged *stages.Staged, ranks int) []Breakdown {
	return repeated(replicaBreakdown(staged, ranks/max(1, staged.Replicas)), ranks)
}

// replicaBreakdown returns the same for the ranks of one replica.
func replicaBreakdown(staged *stages.Staged, ranks int) []Breakdown {
	perReplica := make([]Breakdown, ranks)
	for r := range perReplica {
		perReplica[r] = Breakdown{Buffers: staged.Process.Buffers, Context: staged.Process.Context}
	}
	per, kept, unpacked, widest := staged.PerParameter, keptStateOf(staged), make([]int64, ranks), make([]int64, ranks)
	for _, s := range staged.Stages {
		for _, r := range s.Ranks {
			perReplica[r].add(Breakdown{
				Parameters: staged.ShareOf(&s, kept.Parameter, 3) + staged.HeldExtra(&s) + staged.FrozenBytes(&s),
				Gradients:  keptGradients(staged, &s, kept),
				Optimizer:  staged.ShareOf(&s, per.Optimizer, 1) + staged.StatesOf(&s),
			})
			unpacked[r] = max(unpacked[r], s.Unpacked)
			widest[r] = max(widest[r], staged.Share(s.Widest*kept.Gradient, 2))
			if staged.Simplified && staged.Gathers() {
				perReplica[r].add(Breakdown{
					Parameters: s.Parameters*per.Parameter + s.Frozen.Bytes(staged.Training.ActivationElement()),
					Gradients:  s.Parameters * per.Gradient,
				})
			}
		}
	}
	for i := range staged.Stages {
		if s := &staged.Stages[i]; staged.SumOnce && staged.Gathers() {
			for _, r := range s.Ranks {
				perReplica[r].Gradients += s.Parameters * per.Gradient
			}
		}
	}
	for r, bytes := range unpacked { // one weight at a time, in memory that the allocator keeps
		perReplica[r].Activations += bytes
		if staged.Training.UpdateIn == training.UpdateInBackward {
			perReplica[r].Gradients += widest[r]
		}
	}
	return perReplica
}

// keptGradients returns the bytes of a stage's gradients that stay from step to step.
func keptGradients(staged *stages.Staged, s *stages.Stage, kept keptState) int64 {
	if FreesGradients(staged) {
		return 0
	}
	return gradientsOf(staged, s, kept)
}

// gradientsOf returns the bytes of a stage's gradients that wait for the update. If the backward updates, none do:
// those of one layer are there at a time.
func gradientsOf(staged *stages.Staged, s *stages.Stage, kept keptState) int64 {
	if staged.Training.UpdateIn == training.UpdateInBackward {
		return 0
	}
	return staged.ShareOf(s, kept.Gradient, 2) + staged.ShareOf(s, kept.copies, 1)
}

// AtPeak returns the memory of every rank at its peak (the first, if it is reached several times)
// in a simulation of the ledger's graph that has been summed up, peaks included.
func (l *Ledger) AtPeak(x *graph.Statistics) []Breakdown {
	persistent := PersistentBreakdown(l.staged, l.graph.Ranks())
	persistent = persistent[:len(persistent)/max(1, l.graph.Copies)] // others are like these
	peak := slices.Clone(persistent)
	for r := range peak {
		x.AtPeak(r, func(class int32, starts, ends int64) {
			start, end := l.Parts(&l.graph.Classes[class])
			for _, c := range []struct {
				change Breakdown
				times  int64
			}{{start, starts}, {end, ends}} {
				if c.change.Sum() != 0 { // the times do not count changes of no bytes
					peak[r].add(c.change.times(c.times))
				}
			}
		})
	}
	return repeated(l.addReserve(peak, persistent), l.graph.Ranks())
}

// AtMeasuredPeak does what AtPeak does for a measured trace. Measured changes of memory do not name
// their tasks: parameters, gradients, optimizer and buffers are those that the ledger has at that
// time, and activations are the rest.
func (l *Ledger) AtMeasuredPeak(t *graph.Trace) []Breakdown {
	peak := PersistentBreakdown(l.staged, t.Graph.Ranks())
	if len(t.Memory) == 0 {
		return l.addReserve(peak, slices.Clone(peak))
	}
	at, level := peaksOf(t)
	for i, task := range t.Graph.Tasks() {
		start, end := l.Parts(&task)
		start.Activations, end.Activations = 0, 0
		if t.Spans[i].Start <= at[task.Rank] {
			peak[task.Rank].add(start)
		}
		if t.Spans[i].End <= at[task.Rank] {
			peak[task.Rank].add(end)
		}
	}
	for r := range peak {
		p := &peak[r]
		p.Activations = level[r] - p.Sum()
		for _, less := range []*int64{&p.Buffers, &p.Gradients, &p.Parameters} {
			if p.Activations < 0 { // a task has begun, but its tensor does not exist yet
				part := min(*less, -p.Activations)
				*less -= part
				p.Activations += part
			}
		}
	}
	return peak
}

// peaksOf returns the time at which the memory of every rank is at its peak, and that peak.
func peaksOf(t *graph.Trace) (at []time.Duration, level []int64) {
	now := make([]int64, t.Graph.Ranks())
	copy(now, t.Persistent)
	at, level = make([]time.Duration, len(now)), slices.Clone(now)
	for _, e := range t.Memory {
		if now[e.Rank] += e.Bytes; now[e.Rank] > level[e.Rank] {
			at[e.Rank], level[e.Rank] = e.At, now[e.Rank]
		}
	}
	return at, level
}
