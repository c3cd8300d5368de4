package memory

import (
	"slices"
	"time"

	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// Breakdown is memory by what it holds.
type Breakdown struct {
	// Parameters are the weights in the precision of training: a rank's own, those
	// that ZeRO 3 has gathered for a task, and versions that are stashed.
	Parameters int64
	// Gradients are sums over microbatches, and under ZeRO 2 and 3 also whole ones
	// that have yet to be scattered.
	Gradients int64
	// Optimizer is moments, and in mixed precision the fp32 weights.
	Optimizer int64
	// Activations are what passes make and keep, the gradients of that, and what
	// messages bring.
	Activations int64
	// Buffers are what collectives need to run, and the communication library.
	Buffers int64
	// Context is what driver and libraries take, and what the allocator holds beyond the
	// tensors.
	Context int64
}

// Sum is all of it.
func (b Breakdown) Sum() int64 {
	return b.Parameters + b.Gradients + b.Optimizer + b.Activations + b.Buffers + b.Context
}

func (b *Breakdown) add(c Breakdown) {
	b.Parameters += c.Parameters
	b.Gradients += c.Gradients
	b.Optimizer += c.Optimizer
	b.Activations += c.Activations
	b.Buffers += c.Buffers
	b.Context += c.Context
}

func (b Breakdown) times(n int64) Breakdown {
	return Breakdown{b.Parameters * n, b.Gradients * n, b.Optimizer * n, b.Activations * n, b.Buffers * n, b.Context * n}
}

// Lasting is the memory of every rank that lasts from step to step: parameters,
// gradients and optimizer state, sharded over the replicas as Zero says (Rajbhandari
// et al. 2020, figure 1). A share is rounded up: to a byte, or with ZeRO 3 to a
// parameter of every flat. The simplified ZeRO 3 keeps what is whole as well. What a
// process holds beside tensors is once for every rank.
func PersistentBreakdown(staged *stages.Staged, ranks int) []Breakdown {
	perReplica := make([]Breakdown, ranks/max(1, staged.Replicas))
	for r := range perReplica {
		perReplica[r] = Breakdown{Buffers: staged.Process.Buffers, Context: staged.Process.Context}
	}
	per, kept := staged.PerParameter, keptStateOf(staged)
	for _, s := range staged.Stages {
		for _, r := range s.Ranks {
			perReplica[r].add(Breakdown{
				Parameters: staged.ShareOf(&s, kept.Parameter, 3) + staged.HeldExtra(&s),
				Gradients:  staged.ShareOf(&s, kept.Gradient, 2) + staged.ShareOf(&s, kept.copies, 1),
				Optimizer:  staged.ShareOf(&s, per.Optimizer, 1),
			})
			if staged.Simplified && staged.Gathers() {
				perReplica[r].add(Breakdown{Parameters: s.Parameters * per.Parameter, Gradients: s.Parameters * per.Gradient})
			}
		}
	}
	lasting := make([]Breakdown, ranks)
	for r := range lasting {
		lasting[r] = perReplica[r%len(perReplica)]
	}
	return lasting
}

// AtPeak is what the memory of every rank holds when it is at its highest, the first
// time, in a trace of the ledger's graph. Changes of memory that were simulated name
// their tasks. Those that were measured are of tensors and name none: there, what
// lasts, is gathered or waits to be scattered is as the ledger has it at that time, and
// activations are the rest.
func (l *Ledger) AtPeak(t *graph.Trace) []Breakdown {
	if len(t.Memory) > 0 && t.Memory[0].Task == graph.None {
		return l.atMeasuredPeak(t)
	}
	lasting := PersistentBreakdown(l.staged, t.Graph.Ranks())
	now, peak := slices.Clone(lasting), slices.Clone(lasting)
	began := make([]bool, len(t.Graph.Tasks))
	for _, e := range t.Memory {
		start, end := l.Parts(&t.Graph.Tasks[e.Task])
		change := &end
		if !began[e.Task] && start.Sum() != 0 { // what changes nothing has no event
			change = &start
		}
		began[e.Task] = true
		now[e.Rank].add(*change)
		if now[e.Rank].Sum() > peak[e.Rank].Sum() {
			peak[e.Rank] = now[e.Rank]
		}
	}
	for r := t.Graph.Shape.Ranks; t.Alone && r < len(peak); r++ {
		peak[r] = peak[r%t.Graph.Shape.Ranks]
	}
	return l.addReserve(peak, lasting)
}

// AtPackedPeak does what AtPeak does for a packed graph, which the ledger's stands for.
func (l *Ledger) AtPackedPeak(x *graph.Statistics) []Breakdown {
	lasting := PersistentBreakdown(l.staged, l.graph.Ranks())
	peak := slices.Clone(lasting)
	for r := range peak {
		x.AtPeak(r, func(class int32, starts, ends int64) {
			start, end := l.Parts(&l.graph.Tasks[class])
			for _, c := range []struct {
				change Breakdown
				times  int64
			}{{start, starts}, {end, ends}} {
				if c.change.Sum() != 0 { // what changes nothing has no event
					peak[r].add(c.change.times(c.times))
				}
			}
		})
	}
	return l.addReserve(peak, lasting)
}

// atMeasuredPeak does what AtPeak does for a trace that was measured.
func (l *Ledger) atMeasuredPeak(t *graph.Trace) []Breakdown {
	at, level := peaksOf(t)
	peak := PersistentBreakdown(l.staged, t.Graph.Ranks())
	for i := range t.Graph.Tasks {
		task := &t.Graph.Tasks[i]
		start, end := l.Parts(task)
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
			if p.Activations < 0 { // a task has begun, and its tensor has yet to be made
				part := min(*less, -p.Activations)
				*less -= part
				p.Activations += part
			}
		}
	}
	return peak
}

// highest finds when the memory of every rank is at its highest, and how high.
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
