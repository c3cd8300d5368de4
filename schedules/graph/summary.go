package graph

import "time"

// A Summary is everything that is measured of a trace.
type Summary struct {
	StepTime time.Duration // end of the last task
	Makespan time.Duration // end of the last task before the optimizer
	// Bubble is the idle share of the ranks' time, two ways. Only F, B, I and
	// W count as busy, with the communication that is part of them.
	Bubble Bubble
	// LongestSpan is the longest of the ranks' own spans, last end − first start
	// of their compute.
	LongestSpan time.Duration
	Ranks       []RankSummary
	Messages    int // sends
	// SteadyMicrobatch is the time per microbatch without fill and drain, where
	// the pipeline is never flushed (pipedream); else 0.
	SteadyMicrobatch time.Duration
	// Startup is the trace's (see Trace.Startup).
	Startup time.Duration
}

// Bubble is 1 − busy / (ranks × time). Makespan takes the makespan as the
// time; Span takes the longest of the ranks' own spans, last end − first
// start of their compute, as the zero-bubble papers do (Qi et al. 2023).
type Bubble struct{ Makespan, Span float64 }

// A RankSummary is one rank's share. Compute, ExposedCommunication, Optimizer
// and Idle add up to the step time.
type RankSummary struct {
	Rank    int
	Compute time.Duration // F, B, I and W
	// Communication is the time during which at least one of the rank's own
	// communication tasks runs; exposed is the part beside neither compute
	// nor optimizer. Both include the communication within tasks (see Inner),
	// whose exposed part does not count as compute.
	Communication, ExposedCommunication time.Duration
	Optimizer, Idle                     time.Duration
	// Dispatch and Waiting are the two parts of Idle. Dispatch is the idle time
	// during which a task of the compute stream was ready and had not started:
	// launching it, waking the one who runs it. Waiting is the rest, and all of
	// it where the trace does not know when tasks were ready.
	Dispatch, Waiting            time.Duration
	PeakMemory, PersistentMemory int64
	// PeakInFlight counts stage activations, from the start of F to the end
	// of B or W; where the graph is layered, microbatches, from the start of the
	// first F to the end of the last B.
	PeakInFlight int
	SentBytes    int64
}

// Summarize computes the metrics of a trace.
func Summarize(t *Trace) Summary {
	s := Summary{Ranks: make([]RankSummary, t.Graph.Ranks())}
	for i := range t.Graph.Tasks {
		task, end := &t.Graph.Tasks[i], t.Spans[i].End
		s.StepTime = max(s.StepTime, end)
		if !task.updates() {
			s.Makespan = max(s.Makespan, end)
		}
		s.Ranks[task.Rank].SentBytes += t.Graph.SentBytes(task)
		if task.Kind.Message() {
			s.Messages++
		}
	}
	var busy time.Duration
	streams := newRankStreams(t)
	for r := range s.Ranks {
		rank := &s.Ranks[r]
		rank.Rank = r
		s.LongestSpan = max(s.LongestSpan, streams.summarize(rank, s.StepTime))
		busy += rank.Compute
	}
	made := len(s.Ranks)
	if t.Alone {
		made = t.Graph.Shape.Ranks
		s.Messages *= len(s.Ranks) / made
	}
	s.Bubble = Bubble{idleShare(busy, s.Makespan, made), idleShare(busy, s.LongestSpan, made)}
	t.summarizeMemory(s.Ranks)
	t.summarizeInFlight(s.Ranks)
	s.SteadyMicrobatch, s.Startup = t.steadyMicrobatch(), t.Startup()
	t.summarizeInner(s.Ranks)
	s.copy(made)
	return s
}

// Startup is how long a trace lasts before the first compute task, where parameters are
// broadcast first, which happens once in a training. A step after it takes no longer
// than this one without it. It is 0 where nothing is broadcast.
func (t *Trace) Startup() time.Duration {
	first, found := t.End(), false
	for i := range t.Graph.Tasks {
		k := t.Graph.Tasks[i].Kind
		found = found || k == Broadcast
		if k.Compute() {
			first = min(first, t.Spans[i].Start)
		}
	}
	if !found {
		return 0
	}
	return first
}

// summarizeInner takes the communication within tasks out of compute, where its
// exposed part was counted.
func (t *Trace) summarizeInner(ranks []RankSummary) {
	exposed := make([]time.Duration, len(ranks))
	for i, inner := range t.Inner {
		r := t.Graph.Tasks[i].Rank
		ranks[r].Communication += inner.Communication
		ranks[r].SentBytes += inner.SentBytes
		exposed[r] += inner.Exposed
	}
	for r := range ranks {
		part := min(exposed[r], ranks[r].Compute) // less where tasks ran side by side
		ranks[r].Compute -= part
		ranks[r].ExposedCommunication += part
	}
}

// updates reports whether a task belongs to the update of the parameters,
// which comes after the makespan.
func (t *Task) updates() bool {
	return t.Kind == Optimizer || t.Kind == AllGather && t.Microbatch == None
}

func idleShare(busy, time time.Duration, ranks int) float64 {
	if time <= 0 || ranks == 0 {
		return 0
	}
	return max(0, 1-float64(busy)/(float64(ranks)*float64(time)))
}

// SentBytes counts what a task makes its rank send. Fused collectives count as a
// ring: 2(N−1)/N of the tensor for an all-reduce, half to scatter or to gather, rounded
// down to a byte; a broadcast is passed on whole by all but the last device.
func (g *Graph) SentBytes(t *Task) int64 {
	switch {
	case t.Kind.Message(), t.Kind == AllToAll:
		return t.Bytes
	case t.Kind == Broadcast:
		if ranks := g.Groups[t.Peer]; t.Rank == ranks[len(ranks)-1] && g.Width(t.Peer) == 1 {
			return 0
		}
		return t.Bytes
	case t.Kind.Collective():
		n := int64(g.Members(t.Peer))
		chunks := n - 1
		if t.Kind == AllReduce {
			chunks *= 2
		}
		return t.Bytes/n*chunks + t.Bytes%n*chunks/n
	}
	return 0
}

// summarizeMemory finds the highest level of every rank.
func (t *Trace) summarizeMemory(ranks []RankSummary) {
	level := make([]int64, len(ranks))
	for r := range ranks {
		if t.Persistent != nil {
			level[r] = t.Persistent[r]
		}
		ranks[r].PersistentMemory, ranks[r].PeakMemory = level[r], level[r]
	}
	for _, e := range t.Memory {
		level[e.Rank] += e.Bytes
		ranks[e.Rank].PeakMemory = max(ranks[e.Rank].PeakMemory, level[e.Rank])
	}
}

// summarizeInFlight counts activations held. A rank computes one task at a
// time, so the order of the tasks is enough.
func (t *Trace) summarizeInFlight(ranks []RankSummary) {
	g := t.Graph
	held, ends := make([]int, g.Ranks()), g.backwards()
	for i := range g.Tasks {
		task := &g.Tasks[i]
		if !task.Kind.Compute() || g.Layered && task.Stage > 0 {
			continue
		}
		switch r := task.Rank; {
		case task.Kind == Forward && task.Part == 0:
			held[r]++
			ranks[r].PeakInFlight = max(ranks[r].PeakInFlight, held[r])
		case task.Kind == Backward || task.Kind == WeightGradient:
			if task.Part == ends.of(task) {
				held[r]--
			}
		}
	}
}

// backwards tells the last part of every B or W of the first replica, by stage and
// microbatch. Without experts, whose exchanges alone let other tasks come between, it is
// empty: the first part then does as well.
type backwards struct {
	microbatches int
	last         []uint16
}

func (g *Graph) backwards() backwards {
	b := backwards{microbatches: g.Shape.Microbatches}
	if g.Experts.Span == 0 {
		return b
	}
	b.last = make([]uint16, g.Placement.Stages()*b.microbatches)
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if int(t.Rank) >= g.Shape.Ranks {
			break
		}
		if t.Kind == Backward || t.Kind == WeightGradient {
			last := &b.last[int(t.Stage)*b.microbatches+int(t.Microbatch)]
			*last = max(*last, t.Part)
		}
	}
	return b
}

// of finds the last part of the action that a task is part of.
func (b backwards) of(t *Task) uint16 {
	if b.last == nil {
		return 0
	}
	return b.last[int(t.Stage)*b.microbatches+int(t.Microbatch)]
}

// steadyMicrobatch measures the time from one microbatch to the next without fill and
// drain, where the pipeline has no flush: the mean of the times between the ends of
// the first stage's backwards. 0 for other graphs, and for a single microbatch.
func (t *Trace) steadyMicrobatch() time.Duration {
	if !t.Graph.Stashing || t.Graph.Shape.Microbatches < 2 {
		return 0
	}
	var first, last time.Duration
	for i := range t.Graph.Tasks {
		if task := &t.Graph.Tasks[i]; task.Kind == Backward && task.Stage == 0 {
			if last = t.Spans[i].End; task.Microbatch == 0 {
				first = last
			}
		}
	}
	return (last - first) / time.Duration(t.Graph.Shape.Microbatches-1)
}
