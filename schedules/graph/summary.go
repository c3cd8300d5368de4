package graph

import (
	"slices"
	"time"
)

// A Summary has the metrics of a trace.
type Summary struct {
	StepTime time.Duration // end of the last task
	Makespan time.Duration // end of the last task before the optimizer
	// Bubble is the idle share of the ranks' time, in two definitions. Only F, B, I, W and
	// losses count as busy, including the communication inside them.
	Bubble Bubble
	// LongestSpan is the longest time from the first start to the last end of a rank's
	// compute tasks.
	LongestSpan time.Duration
	Ranks       []RankSummary
	Messages    int // sends
	// SteadyMicrobatch is the time per microbatch without fill and drain, where
	// the pipeline is never flushed (pipedream); 0 otherwise.
	SteadyMicrobatch time.Duration
	// Startup is described at [Trace.Startup].
	Startup time.Duration
}

// Bubble is 1 − busy / (ranks × time). Makespan takes the makespan as the
// time; Span takes Summary.LongestSpan, as the zero-bubble papers do (Qi et al. 2023).
type Bubble struct{ Makespan, Span float64 }

// A RankSummary has the metrics of one rank. Compute, ExposedCommunication, Optimizer
// and Idle add up to the step time.
type RankSummary struct {
	Rank    int
	Compute time.Duration // F, B, I, W and losses
	// Communication is the time during which at least one of the rank's own
	// communication tasks runs. ExposedCommunication is the part of it during which neither
	// compute nor the optimizer runs. Both include the communication inside tasks (see
	// Inner), whose exposed part does not count as compute.
	Communication, ExposedCommunication time.Duration
	Optimizer, Idle                     time.Duration // Optimizer includes zeroing
	// Dispatch and Waiting are the two parts of Idle. Dispatch is the idle time
	// during which a task of the compute stream was ready and had not started:
	// launching it, or waking the thread that runs it. Waiting is the rest, and all of
	// it if the trace does not say when tasks were ready.
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
	var x Statistics
	var s Summary
	x.Summarize(t, &s)
	return s
}

// Startup returns the time before the first compute task in a step that begins by broadcasting
// parameters, and 0 for other steps. Parameters are broadcast once in a training: later
// steps take no longer than this one less Startup.
func (t *Trace) Startup() time.Duration {
	if !slices.ContainsFunc(t.Graph.Classes, func(t Task) bool { return t.Kind == Broadcast }) {
		return 0
	}
	first := t.End()
	for i, row := range t.Graph.Rows {
		if t.Graph.Classes[row.Class].Kind.Compute() {
			first = min(first, t.Span(int32(i)).Start)
		}
	}
	return first
}

// updates reports whether a task belongs to the update of the parameters,
// which comes after the makespan.
func (t *Task) updates() bool {
	return t.Kind == Optimizer || t.Microbatch == None && (t.Kind == AllGather || t.Of == AllGather)
}

func idleShare(busy, time time.Duration, ranks int) float64 {
	if time <= 0 || ranks == 0 {
		return 0
	}
	return max(0, 1-float64(busy)/(float64(ranks)*float64(time)))
}

// SentBytes returns how many bytes a task makes its rank send. Fused collectives count as
// rings: 2(N−1)/N of the tensor for an all-reduce, half of that for a reduce-scatter or an
// all-gather, rounded down to a byte. In a broadcast every device but the last sends the
// whole tensor.
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

// steadyMicrobatch returns the time from one microbatch to the next without fill and drain, for
// a pipeline without flush: the mean time between the ends of the first stage's backwards.
// It is 0 for other graphs, and for a single microbatch.
func (t *Trace) steadyMicrobatch() time.Duration {
	if !t.Graph.Stashing || t.Graph.Shape.Microbatches < 2 {
		return 0
	}
	var first, last time.Duration
	for i, row := range t.Graph.Rows {
		if task := &t.Graph.Classes[row.Class]; task.Kind == Backward && task.Stage == 0 {
			if last = t.Span(int32(i)).End; t.Graph.Task(int32(i)).Microbatch == 0 {
				first = last
			}
		}
	}
	return (last - first) / time.Duration(t.Graph.Shape.Microbatches-1)
}
