package graph

import "time"

// A Price is the cost of a class of tasks, with what an engine and statistics need to know of
// them.
type Price struct {
	Busy, Release  time.Duration // Release is Busy and the delay
	AtStart, AtEnd int64         // bytes
	Link           int32         // 0 of collectives, too
	Group          int32         // None but of collectives
	Other          int32         // the rank on which AtStart falls
	Kind           Kind
	Update         bool // comes after the makespan
	// Special tasks do not start as soon as they are ready: collectives, those on a link, those
	// that a host launches, and those whose cost is refused.
	Special      bool
	Launch, Lead time.Duration // see Cost
	Inner        *Inner
}

// Price asks for the cost of every class, and puts the prices into a list.
func (g *Graph) Price(costs Costs, list []Price) []Price {
	list = list[:0]
	for i := range g.Classes {
		t := &g.Classes[i]
		list = append(list, priceOf(t, costs.Task(t), costs.Host != nil))
	}
	return list
}

func priceOf(t *Task, c Cost, launched bool) Price {
	p := Price{
		Busy: c.Busy, Release: c.Busy + c.Delay, AtStart: c.BytesAtStart, AtEnd: c.BytesAtEnd,
		Launch: c.Launch, Lead: c.LaunchLead, Inner: c.Inner,
		Link: c.Link, Group: None, Other: t.Rank, Kind: t.Kind, Update: t.updates(),
	}
	switch {
	case t.Kind.Collective():
		p.Group, p.Link = t.Peer, 0
	case t.Kind.Message():
		p.Other = t.Peer
	}
	p.Special = p.Group != None || p.Link > 0 || launched || p.Negative()
	return p
}

// Negative reports whether a part of the cost is.
func (p *Price) Negative() bool {
	return p.Busy < 0 || p.Release < p.Busy || p.Launch < 0 || p.Lead < 0
}

// Delay is that of the cost.
func (p *Price) Delay() time.Duration { return p.Release - p.Busy }

// Launched reports whether a host launches the tasks, if there is one.
func (p *Price) Launched() bool { return p.Group == None && p.Link == 0 }
