package graph

import (
	"errors"
	"time"
)

// Packed is a graph with its costs at 16 bytes a task: tasks lie stream by stream, and
// what many share is said once, by class. It holds what pipelines are made of: on every
// rank one stream that computes, and others whose tasks each wait for one of that
// stream. What a task waits for on its own stream goes without saying.
//
// Tasks of one class are alike but for their microbatch, and cost the same.
type Packed struct {
	// Graph has the shape, streams and groups, and of the tasks one of every class, in
	// the order in which they first appear.
	Graph *Graph
	Tasks []PackedTask
	// Begin is where every stream's tasks begin, and the end; First likewise where every
	// rank's streams begin.
	Begin, First []int32
	// More lists what tasks with several dependencies wait for: their number, then
	// the tasks.
	More    []int32
	Classes []Class
	Counts  []int32 // of tasks, by class
	// Costs are those of the classes, and Persistent is that of the ranks.
	Costs      []Cost
	Persistent []int64
	// Host is how computing tasks are launched, by a thread for every rank; nil where that
	// costs nothing.
	Host *Host
	// Within counts the groups of a replica, which stand behind those over replicas.
	Within int32
	// Members counts, by group, the ranks that take part in a collective.
	Members []int32
	// Copies is how many replicas the tasks stand for: 1, or all where they do the same at
	// the same time. Then a collective over them has one member here.
	Copies int
}

// PackedTask is a task of a Packed.
type PackedTask struct {
	// Start is when the task started, once it has been simulated.
	Start time.Duration
	// Dep is what the task waits for: a task, None, or −2 − i for the list at More[i].
	Dep   int32
	Class int32
}

// A Class is what an engine and statistics need of the tasks that are alike.
type Class struct {
	Busy, Release  time.Duration // Release is Busy and the delay
	AtStart, AtEnd int64
	Launch, Lead   time.Duration // of computing tasks; see Cost
	Link, Group    int32         // Group is None but of collectives
	Other          int32         // the rank on which AtStart falls
	Kind           Kind
	Update, Part   bool // after the makespan; a part of an action but the first
}

// ErrNotPacked says that a graph or its costs have what packed graphs have not: gathered
// units, broadcasts, pairs on two streams or of interleaved parts, barriers, serial backwards,
// whole last stages, stashed weights; threads of several ranks, shared cores, or computing
// tasks with a delay or a link.
var ErrNotPacked = errors.New("this graph cannot be packed")

// Price sets the costs of all classes. The error is ErrNotPacked or ErrNotAlike.
func (p *Packed) Price(costs Costs) error {
	if h := costs.Host; h != nil && !h.apart() || costs.Cores != nil {
		return ErrNotPacked
	}
	p.Classes, p.Costs, p.Persistent, p.Host = p.Classes[:0], p.Costs[:0], costs.Persistent, costs.Host
	for i := range p.Graph.Tasks {
		t := &p.Graph.Tasks[i]
		cost := costs.Task(t)
		c := Class{
			Busy: cost.Busy, Release: cost.Busy + cost.Delay, AtStart: cost.BytesAtStart, AtEnd: cost.BytesAtEnd,
			Launch: cost.Launch, Lead: cost.LaunchLead,
			Link: cost.Link, Group: None, Other: t.Rank, Kind: t.Kind, Update: t.updates(), Part: t.Part > 0,
		}
		switch {
		case t.Kind.Collective():
			c.Group, c.Link = t.Peer, 0
		case t.Kind.Message():
			c.Other = t.Peer
		case cost.Delay != 0 || cost.Link != 0:
			return ErrNotPacked
		}
		if cost.Busy < 0 || cost.Delay < 0 || cost.Launch < 0 || cost.LaunchLead < 0 {
			return ErrNotPacked // which says what is wrong when it is simulated
		}
		p.Classes, p.Costs = append(p.Classes, c), append(p.Costs, cost)
	}
	if p.Copies > 1 && !p.alike(costs) {
		return ErrNotAlike
	}
	return nil
}

// apart reports whether no two ranks share a thread.
func (h *Host) apart() bool {
	for r, thread := range h.Thread {
		if int(thread) != r {
			return false
		}
	}
	return true
}

// ErrNotAlike says that a replica cannot stand for the others.
var ErrNotAlike = errors.New("the replicas do not do the same at the same time")

// alike reports whether all replicas cost the same and share no link, so that one stands
// for all.
func (p *Packed) alike(costs Costs) bool {
	ranks := p.Graph.Shape.Ranks
	for r := ranks; r < len(p.Persistent); r++ {
		if p.Persistent[r] != p.Persistent[r-ranks] {
			return false
		}
	}
	var uses []linkUse // by link
	var links []int32  // by that of the first replica: that of another
	for d := range int32(p.Copies) {
		clear(links)
		for i := range p.Costs {
			t, first := p.Shifted(i, d), p.Costs[i]
			cost := first
			if d > 0 {
				cost = costs.Task(&t)
			}
			if cost.Link > 0 && !t.Kind.Collective() {
				u := linkUse{d + 1, first.Link}
				uses, links = reaching(uses, cost.Link), reaching(links, first.Link)
				if other := uses[cost.Link]; other != (linkUse{}) && other != u {
					return false
				}
				if other := links[first.Link]; other != 0 && other != cost.Link {
					return false
				}
				uses[cost.Link], links[first.Link] = u, cost.Link
			}
			if !first.equal(cost) {
				return false
			}
		}
	}
	return true
}

// A linkUse is that of a link: by a replica, from 1 on, in place of that of the first.
type linkUse struct{ replica, link int32 }

// reaching returns a slice that has an index.
func reaching[T any](s []T, index int32) []T {
	if n := int(index) + 1 - len(s); n > 0 {
		return append(s, make([]T, n)...)
	}
	return s
}

// equal reports whether costs are the same, perhaps on another link.
func (c Cost) equal(d Cost) bool {
	if (c.Inner == nil) != (d.Inner == nil) || c.Inner != nil && *c.Inner != *d.Inner || (c.Link == 0) != (d.Link == 0) {
		return false
	}
	d.Inner, d.Link = c.Inner, c.Link
	return c == d
}

// Place orders tasks as the graph that is not packed has them: after the computing task
// before them on their rank, messages before collectives.
func (p *Packed) Place(i int32) int64 {
	const message, collective = 1, 2
	t := &p.Tasks[i]
	switch k := p.Classes[t.Class].Kind; {
	case k.Message(), k == AllToAll: // of which a part of an action has one
		return int64(t.Dep)<<2 | message
	case k.Collective() && t.Dep == None: // before all that its rank computes
		return int64(p.Begin[p.First[p.Graph.Tasks[t.Class].Rank]])<<2 - 1
	case k.Collective():
		return int64(t.Dep)<<2 | collective
	}
	return int64(i) << 2
}

// Size counts the tasks of all replicas.
func (p *Packed) Size() int { return len(p.Tasks) * p.Copies }

// Shifted returns the task of a class of the first replica as another has it, but for its
// stream.
func (p *Packed) Shifted(class int, replica int32) Task {
	g := p.Graph
	t, ranks := g.Tasks[class], int32(g.Shape.Ranks)
	t.Rank += replica * ranks
	switch within := int(p.Within) * g.Shape.Replicas; {
	case t.Kind.Message():
		t.Peer += replica * ranks
	case t.Kind.Collective() && int(t.Peer) >= len(g.Groups)-within:
		t.Peer += replica * p.Within
	case t.Kind == AllToAll:
		t.Peer += replica / g.Experts.Span * ranks
	case g.Experts.sums(t.Peer, int(ranks)):
		t.Peer += replica % g.Experts.Span * ranks
	}
	return t
}

// Ready returns when a task had its turn and what it waits for: it started then, or when
// its host had launched it.
func (p *Packed) Ready(i int32) time.Duration {
	t := &p.Tasks[i]
	if p.Host == nil || !p.Classes[t.Class].Kind.Compute() {
		return t.Start
	}
	ready, _ := p.Due(i)
	return ready
}

// Due returns when a task had its turn and what it waits for, and the task that this was due
// to: the one before it on its stream, if none of the others was later.
func (p *Packed) Due(i int32) (ready time.Duration, cause int32) {
	t := &p.Tasks[i]
	cause = None
	if stream := p.Graph.Tasks[t.Class].Stream; i > p.Begin[stream] {
		ready, cause = p.Tasks[i-1].Start+p.Classes[p.Tasks[i-1].Class].Busy, i-1
	}
	later := func(d int32) {
		if at := p.Tasks[d].Start + p.Classes[p.Tasks[d].Class].Release; at > ready {
			ready, cause = at, d
		}
	}
	switch {
	case t.Dep >= 0:
		later(t.Dep)
	case t.Dep < None:
		more := p.More[-2-t.Dep:]
		for _, d := range more[1 : 1+more[0]] {
			later(d)
		}
	}
	return ready, cause
}
