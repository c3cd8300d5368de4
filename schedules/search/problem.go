package search

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"psim/schedules/graph"
	"psim/schedules/order"
)

// A Problem describes the pipeline that an order is searched for.
type Problem struct {
	Ranks, Microbatches int
	// Folded puts two stages on every rank, in a V: r and 2·Ranks−1−r on rank r.
	// Otherwise stage s is on rank s.
	Folded bool
	// Step prices F, I and W: how long each takes, and how it changes the memory
	// in use on its rank when it starts and ends. Only Busy, BytesAtStart and BytesAtEnd
	// of a cost are read.
	Step func(order.Action) graph.Cost
	// Latency[s] is the time from the end of a pass until its result crosses the
	// boundary between stages s and s+1, in either direction; nil means no latency.
	// Within a rank, at the turn of the V, nothing is sent.
	Latency []time.Duration
	// Limit is the memory of every rank in bytes, inclusive, for the bytes that Step
	// counts; nil is unlimited.
	Limit []int64
}

// FromCosts makes a problem of the costs of a graph's tasks. folded is as in [Problem].
// A message counts with its time on the link and its latency, but as if it never
// had to queue.
func FromCosts(ranks, microbatches int, folded bool, costs graph.Costs) Problem {
	p := Problem{Ranks: ranks, Microbatches: microbatches, Folded: folded}
	q := &problem{p: ranks}
	p.Step = func(a order.Action) graph.Cost {
		rank := int32(q.rankOf(int(a.Stage)))
		return costs.Task(&graph.Task{
			Kind: a.Kind, Rank: rank, Stage: a.Stage, Microbatch: a.Microbatch, Peer: graph.None,
		})
	}
	return p
}

// Split returns a simple order that is always legal: one microbatch after another, with
// split backwards, over one stage per rank or over a V.
func Split(ranks, microbatches int, folded bool) order.Order {
	q := &problem{p: ranks, m: microbatches, lanes: Problem{Folded: folded}.lanes()}
	q.latency = make([]int64, max(0, q.stages()-1))
	q.placeStages()
	return q.order(q.sequential())
}

// Relaxed returns the problem with limits raised to hold at least one microbatch on
// every rank. A rank whose limit was too low then gets an order that needs the least
// memory.
func (in Problem) Relaxed() Problem {
	if in.Limit == nil {
		return in
	}
	loose := in
	loose.Limit = nil
	q, err := loose.prepare()
	if err != nil {
		return in
	}
	in.Limit = slices.Clone(in.Limit)
	for r := range in.Limit {
		for m := range q.m {
			in.Limit[r] = max(in.Limit[r], q.peakOfOne(r, m))
		}
	}
	return in
}

// passes lists the kinds of passes of a split step, indexed by op.
var passes = [3]graph.Kind{graph.Forward, graph.InputGradient, graph.WeightGradient}

// An op is a pass of a rank: F, I and W of its first stage, then those of its second.
type op uint8

const (
	opF op = iota
	opI
	opW
	upF
	upI
	upW
	none // no pass
)

// operations counts the different ops.
const operations = int(none)

// kind returns the op of the first stage with the same kind of pass.
func (o op) kind() op { return kinds[o] }

// kinds is a table because searches look up little else.
var kinds = [operations]op{opF, opI, opW, opF, opI, opW}

// lane returns the index of the rank's stage.
func (o op) lane() int { return int(o / 3) }

// problem holds a Problem with all costs looked up. Slices by pass have the value of
// stage s and microbatch i at index s·m + i, where m is the number of microbatches.
type problem struct {
	p, m       int
	lanes      int // stages per rank
	time       [3][]int64
	start, end [3][]int64 // bytes
	latency    []int64    // by boundary; 0 within a rank
	limit      []int64    // by rank
	slots      []slot     // by rank, then lane
}

// A slot holds one stage of a rank.
type slot struct {
	stage int
	first int // index of the stage's microbatch 0 in slices by pass
	// The ranks of the stages before and after, −1 at the ends, and the latency of
	// messages to them.
	before, after     int
	toBefore, toAfter int64
}

// slot returns a stage of a rank.
func (q *problem) slot(r, lane int) *slot { return &q.slots[r*q.lanes+lane] }

// stages counts the stages of all ranks.
func (q *problem) stages() int { return q.p * q.lanes }

// rankOf returns the rank of a stage: the second lane runs back up the V.
func (q *problem) rankOf(stage int) int {
	if stage < q.p {
		return stage
	}
	return 2*q.p - 1 - stage
}

// placeStages puts the stages on the ranks.
func (q *problem) placeStages() {
	q.slots = make([]slot, q.stages())
	for s := range q.slots {
		r := q.rankOf(s)
		own := q.slot(r, s/q.p)
		*own = slot{stage: s, first: s * q.m, before: -1, after: -1}
		if s > 0 {
			own.before, own.toBefore = q.rankOf(s-1), q.latency[s-1]
		}
		if s+1 < q.stages() {
			own.after, own.toAfter = q.rankOf(s+1), q.latency[s]
		}
	}
}

// unlimited exceeds any sum of memory.
const unlimited = int64(1) << 62

// MaxTasks is the largest number of tasks that Find accepts.
const MaxTasks = 1 << 22

// lanes counts the stages per rank.
func (in Problem) lanes() int {
	if in.Folded {
		return 2
	}
	return 1
}

// stages counts the stages of all ranks.
func (in Problem) stages() int { return in.Ranks * in.lanes() }

// prepare checks the problem and looks up all costs.
func (in Problem) prepare() (*problem, error) {
	switch {
	case in.Ranks < 1 || in.Microbatches < 1:
		return nil, fmt.Errorf("%d stages and %d microbatches: there must be at least one of each",
			in.Ranks, in.Microbatches)
	case 3*float64(in.stages())*float64(in.Microbatches) > MaxTasks:
		return nil, fmt.Errorf("%d stages × %d microbatches: more than the %d tasks that an order is searched for",
			in.stages(), in.Microbatches, MaxTasks)
	case in.Latency != nil && len(in.Latency) != in.stages()-1:
		return nil, fmt.Errorf("%d latencies for %d boundaries", len(in.Latency), in.stages()-1)
	case in.Limit != nil && len(in.Limit) != in.Ranks:
		return nil, fmt.Errorf("%d memory limits for %d ranks", len(in.Limit), in.Ranks)
	}
	q := &problem{
		p: in.Ranks, m: in.Microbatches, lanes: in.lanes(),
		latency: make([]int64, in.stages()-1), limit: make([]int64, in.Ranks),
	}
	for s, c := range in.Latency {
		if q.rankOf(s) != q.rankOf(s+1) {
			q.latency[s] = int64(c)
		}
	}
	q.placeStages()
	for r := range q.limit {
		q.limit[r] = unlimited
		if in.Limit != nil {
			q.limit[r] = in.Limit[r]
		}
	}
	for k, kind := range passes {
		n := q.stages() * q.m
		q.time[k], q.start[k], q.end[k] = make([]int64, n), make([]int64, n), make([]int64, n)
		for i := range n {
			cost := in.Step(order.Action{Kind: kind, Stage: int32(i / q.m), Microbatch: int32(i % q.m)})
			q.time[k][i], q.start[k][i], q.end[k][i] = int64(cost.Busy), cost.BytesAtStart, cost.BytesAtEnd
			if cost.Busy < 0 || cost.Delay < 0 {
				return nil, errors.New("a task has a negative time")
			}
		}
	}
	return q, q.checkFits()
}

// A MemoryError says that no order fits: even one microbatch at a time needs more than
// the limit.
type MemoryError struct {
	Rank        int
	Need, Limit int64
}

// Error names the rank, the bytes that it needs, and its limit.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("rank %d needs %d bytes for one microbatch, more than its limit of %d",
		e.Rank, e.Need, e.Limit)
}

// checkFits returns a *MemoryError if a rank cannot hold even one microbatch at a time.
func (q *problem) checkFits() error {
	for r := range q.p {
		for m := range q.m {
			if need := q.peakOfOne(r, m); need > q.limit[r] {
				return &MemoryError{Rank: r, Need: need, Limit: q.limit[r]}
			}
		}
	}
	return nil
}

// oneMicrobatch returns the sequence of a single microbatch: down the V and up, and back.
func (q *problem) oneMicrobatch() sequence {
	if q.lanes == 1 {
		return sequence{opF, opI, opW}
	}
	return sequence{opF, upF, upI, upW, opI, opW}
}

// peakOfOne returns the memory peak of a rank when microbatch m runs alone.
func (q *problem) peakOfOne(r, m int) int64 {
	level, peak := int64(0), int64(0)
	for _, l := range q.oneMicrobatch() {
		i, k := q.slot(r, l.lane()).first+m, l.kind()
		peak = max(peak, level+q.start[k][i])
		level += q.start[k][i] + q.end[k][i]
	}
	return peak
}

// net returns the change of memory by a pass.
func (q *problem) net(k op, i int) int64 { return q.start[k][i] + q.end[k][i] }

// busy returns the total time of the passes of every rank.
func (q *problem) busy() []int64 {
	busy := make([]int64, q.p)
	for k := range passes {
		for i, t := range q.time[k] {
			busy[q.rankOf(i/q.m)] += t
		}
	}
	return busy
}
