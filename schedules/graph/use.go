package graph

import (
	"cmp"
	"slices"
	"time"
)

// A use adds up how a rank spends its time, from spans in the order of their starts.
type use struct {
	compute, working, communication, busy cover
	launching                             cover // busy, or waiting for a launch
	computes                              bool
	first, last                           time.Duration // of compute
	makespan                              time.Duration
}

// A cover is the length of the union of spans that are added in the order of their starts.
type cover struct{ total, until time.Duration }

func (c *cover) add(s Span) {
	if from := max(s.Start, c.until); s.End > from {
		c.total += s.End - from
		c.until = s.End
	}
}

// add counts a task of a kind.
func (u *use) add(k Kind, s Span) {
	switch {
	case k.Compute():
		if !u.computes {
			u.computes, u.first = true, s.Start
		}
		u.last = max(u.last, s.End)
		u.compute.add(s)
		u.working.add(s)
	case k.Update():
		u.working.add(s)
	case k.Communication():
		u.communication.add(s)
	default:
		return
	}
	u.busy.add(s)
	u.launching.add(s)
}

// fill writes the sums into a rank's summary.
func (u *use) fill(rank *RankSummary, step time.Duration) {
	rank.Compute, rank.Communication = u.compute.total, u.communication.total
	rank.Optimizer = u.working.total - u.compute.total
	rank.ExposedCommunication = u.busy.total - u.working.total
	rank.Idle = step - u.busy.total
	rank.Dispatch = u.launching.total - u.busy.total
	rank.Waiting = rank.Idle - rank.Dispatch
}

// span returns the time from the first start to the last end of compute.
func (u *use) span() time.Duration { return u.last - u.first }

// A measuredSpan is a time during which a task ran or waited to be launched.
type measuredSpan struct {
	Span
	kind  Kind
	waits bool
}

// measured does what merge does for a measured trace, whose streams may not be in order.
func (x *Statistics) measured(r int) (u use) {
	t, list := x.trace, []measuredSpan{}
	for _, s := range x.streams.own[r] {
		for i := t.Graph.First(s); i != None; i = t.Graph.Next(i) {
			task := t.Graph.Class(i)
			list = append(list, measuredSpan{Span: t.Spans[i], kind: task.Kind})
			if !task.updates() {
				u.makespan = max(u.makespan, t.Spans[i].End)
			}
			launched := t.Ready != nil && x.streams.works[s]&waitsForHost != 0
			if launched && t.Ready[i] < t.Spans[i].Start {
				list = append(list, measuredSpan{Span: Span{t.Ready[i], t.Spans[i].Start}, waits: true})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b measuredSpan) int { return cmp.Compare(a.Start, b.Start) })
	for _, s := range list {
		if s.waits {
			u.launching.add(s.Span)
		} else {
			u.add(s.kind, s.Span)
		}
	}
	return u
}
