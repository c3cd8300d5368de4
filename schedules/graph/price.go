package graph

import "time"

// A Price is the cost of the tasks of a class, in the form that the engine and the statistics
// read: they need not look at the class itself.
type Price struct {
	Busy, Release  time.Duration // Release is the sum of Busy and the delay
	AtStart, AtEnd int64         // changes of memory in bytes
	Link           int32         // 0 also for collectives, which use none
	Group          int32         // of collectives; None otherwise
	Kind           Kind
	Update         bool // the tasks run after the makespan
	// Special tasks need not start as soon as they are ready: collectives, tasks on a link,
	// tasks that a host launches. A task with a negative cost is special too.
	Special bool
	// Stretched says that some of the tasks took longer: see [Trace.Longer].
	Stretched    bool
	Launch, Lead time.Duration // see Cost
	Inner        *Inner
}

// Price asks for the cost of every class. It stores the prices in the memory of list.
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
		Link: c.Link, Group: None, Kind: t.Kind, Update: t.updates(),
	}
	if t.Kind.Collective() {
		p.Group, p.Link = t.Peer, 0
	}
	p.Special = p.Group != None || p.Link > 0 || launched || p.Negative()
	return p
}

// Negative reports whether a duration of the cost is negative.
func (p *Price) Negative() bool {
	return p.Busy < 0 || p.Release < p.Busy || p.Launch < 0 || p.Lead < 0
}

// Delay is the delay of the cost.
func (p *Price) Delay() time.Duration { return p.Release - p.Busy }

// Launched reports whether hosts launch tasks of this class.
func (p *Price) Launched() bool { return p.Group == None && p.Link == 0 }
