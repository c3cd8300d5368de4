package sim

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// Where collectives share ports with messages, or with collectives of other streams, everything
// that is under way on a port has an equal share of it, as measured (docs/network.md). Something that
// uses several ports proceeds as fast as on its slowest. How long it takes is known only at its end,
// so ends are events as well.

// Messages of a link whose messages use no shared port go as if nothing shared.

// sharing is the state of the ports. It is not in use unless a port is shared.
type sharing struct {
	on       bool
	now      time.Duration
	groups   [][]int32  // by group: the shared ports of its collectives
	messages [][2]int32 // by class: the shared ports of its messages, or none
	users    [][]int32  // by port: transfers under way

	transfers []transfer
	unused    []int32 // of transfers
	ends      heap    // of transfers: the task of an event is a transfer, and its cause the version

	ported  []bool    // by link: a message of it uses a shared port
	waiting [][]event // by link: what queues for it, in order
	held    []bool    // by link
	open    []int32   // links that may be free, with something that waits
}

// A transfer is a message or collective under way.
type transfer struct {
	event
	price        *graph.Price
	start, since time.Duration
	left         time.Duration // from since on, if it were alone
	share        time.Duration // how many share its slowest port
	version      int32
	ports        []int32
	own          [2]int32 // memory for the ports of a message
}

// reset prepares the ports for a graph.
func (s *sharing) reset(g *graph.Graph, ports *graph.Ports, prices []graph.Price, links int) {
	s.on, s.now, s.ends.events = false, 0, s.ends.events[:0]
	if ports == nil {
		return
	}
	shared := g.Shared(ports)
	if s.on = slices.Contains(shared, true); !s.on {
		return
	}
	s.users = make([][]int32, len(shared))
	s.groups = s.groups[:0]
	for _, list := range ports.Groups {
		var own []int32
		for _, port := range list {
			if int(port) < len(shared) && shared[port] {
				own = append(own, port)
			}
		}
		s.groups = append(s.groups, own)
	}
	s.messages = filled(s.messages, len(g.Classes), [2]int32{none, none})
	s.ported = filled(s.ported, links, false)
	for i := range g.Classes {
		if t := &g.Classes[i]; t.Kind.Message() {
			for k, port := range ports.Message(t) {
				if shared[port] {
					s.messages[i][k], s.ported[prices[i].Link] = port, true
				}
			}
		}
	}
	s.transfers, s.unused, s.open = s.transfers[:0], s.unused[:0], s.open[:0]
	s.waiting, s.held = make([][]event, links), filled(s.held, links, false)
}

// proceed does what happens next: the end of a transfer, the arrival of a message at its queue, the
// start of a collective or of messages whose links are free. It returns false if nothing does.
func (e *Engine) proceed() bool {
	s := &e.sharing
	for {
		switch ends, next := s.ends.events, e.links.events; {
		case len(ends) > 0 && ends[0].ready <= s.now:
			if e.complete(s.ends.pop()) {
				return true
			}
		case len(next) > 0 && next[0].ready <= s.now:
			if e.admit(e.links.pop()) {
				return true
			}
		case len(s.open) > 0:
			if e.dispatch() {
				return true
			}
		case len(ends) == 0 && len(next) == 0:
			return false
		case len(next) == 0 || len(ends) > 0 && ends[0].ready <= next[0].ready:
			s.now = ends[0].ready
		default:
			s.now = next[0].ready
		}
	}
}

// admit starts a collective, or puts a message into the queue of its link, from which it starts at once
// if nothing else happens now. It reports whether a stream can advance.
func (e *Engine) admit(ev event) bool {
	s := &e.sharing
	p := &e.prices[e.graph.Rows[ev.task].Class]
	if p.Group != none {
		return e.begin(ev, p, ev.ready)
	}
	if !s.ported[p.Link] {
		e.grant(ev)
		return true
	}
	list := s.waiting[p.Link]
	if next := e.links.events; len(list) == 0 && !s.held[p.Link] && len(s.open) == 0 &&
		(len(next) == 0 || next[0].ready > s.now) {
		return e.occupy(ev, p)
	}
	at := len(list)
	for at > 0 && ev.before(list[at-1]) {
		at--
	}
	s.waiting[p.Link] = slices.Insert(list, at, ev)
	s.open = append(s.open, p.Link)
	return false
}

// dispatch starts the first message that waits for a link that may be free, and reports whether a
// stream can advance.
func (e *Engine) dispatch() bool {
	s := &e.sharing
	link := s.open[len(s.open)-1]
	if s.held[link] || len(s.waiting[link]) == 0 {
		s.open = s.open[:len(s.open)-1]
		return false
	}
	ev := s.waiting[link][0]
	s.waiting[link] = slices.Delete(s.waiting[link], 0, 1)
	return e.occupy(ev, &e.prices[e.graph.Rows[ev.task].Class])
}

// occupy starts a message, whose link is free.
func (e *Engine) occupy(ev event, p *graph.Price) bool {
	s := &e.sharing
	if s.now > ev.ready && e.linkFree[p.Link] == s.now {
		ev.cause = e.linkLast[p.Link]
	}
	s.held[p.Link] = true
	return e.begin(ev, p, s.now)
}

// begin starts a transfer. It reports whether it ends at once.
func (e *Engine) begin(ev event, p *graph.Price, at time.Duration) bool {
	s := &e.sharing
	id := int32(len(s.transfers))
	if n := len(s.unused); n > 0 {
		id, s.unused = s.unused[n-1], s.unused[:n-1]
	} else {
		s.transfers = append(s.transfers, transfer{})
	}
	t := &s.transfers[id]
	version := t.version
	*t = transfer{event: ev, price: p, start: at, since: at, left: p.Busy, share: 1, version: version}
	if p.Group != none {
		t.ports = s.groups[p.Group]
	} else {
		t.ports = t.own[:0]
		for _, port := range s.messages[e.graph.Rows[ev.task].Class] {
			if port != none && !slices.Contains(t.ports, port) {
				t.ports = append(t.ports, port)
			}
		}
	}
	if p.Busy == 0 {
		e.end(id)
		return true
	}
	for _, port := range t.ports {
		s.users[port] = append(s.users[port], id)
		t.share = max(t.share, time.Duration(len(s.users[port])))
	}
	s.slow(t.ports)
	s.plan(id)
	return false
}

// complete ends a transfer, unless it is still to have more time.
func (e *Engine) complete(ev event) bool {
	s := &e.sharing
	t := &s.transfers[ev.task]
	if t.version != ev.cause {
		return false
	}
	for _, port := range t.ports {
		s.users[port] = slices.DeleteFunc(s.users[port], func(id int32) bool { return id == ev.task })
	}
	s.hasten(t.ports)
	e.end(ev.task)
	return true
}

// end finishes the tasks of a transfer, and frees its link.
func (e *Engine) end(id int32) {
	s := &e.sharing
	t := &s.transfers[id]
	t.version++
	s.unused = append(s.unused, id)
	longer := s.now - t.start - t.price.Busy
	if t.price.Group != none {
		g := &e.groups[t.price.Group]
		for _, stream := range g.streams {
			e.finishLater(stream, t, longer)
		}
		g.streams = g.streams[:0]
		return
	}
	link := t.price.Link
	e.linkFree[link], e.linkLast[link], s.held[link] = s.now, t.task, false
	s.open = append(s.open, link)
	e.finishLater(t.stream, t, longer)
}

// finishLater runs the head of a stream, which took longer than its price.
func (e *Engine) finishLater(stream int32, t *transfer, longer time.Duration) {
	if longer > 0 {
		if e.trace.Longer == nil {
			e.trace.Longer = map[int32]time.Duration{}
		}
		head := e.streams[stream].head
		e.trace.Longer[head], e.prices[e.graph.Rows[head].Class].Stretched = longer, true
	}
	e.finish(stream, t.start, longer, t.cause)
	e.awake = append(e.awake, stream)
}

// slow makes the shares of everything on some ports smaller, each of which has one more user.
func (s *sharing) slow(ports []int32) {
	for _, port := range ports {
		share := time.Duration(len(s.users[port]))
		for _, id := range s.users[port] {
			if share > s.transfers[id].share {
				s.change(id, share)
			}
		}
	}
}

// hasten makes the shares of everything on some ports larger that was slowest there. Each of the ports has one user
// less.
func (s *sharing) hasten(ports []int32) {
	for _, port := range ports {
		before := time.Duration(len(s.users[port]) + 1)
		for _, id := range s.users[port] {
			if s.transfers[id].share != before {
				continue
			}
			share := time.Duration(1)
			for _, p := range s.transfers[id].ports {
				share = max(share, time.Duration(len(s.users[p])))
			}
			if share < before {
				s.change(id, share)
			}
		}
	}
}

// change gives a transfer another share from now on.
func (s *sharing) change(id int32, share time.Duration) {
	t := &s.transfers[id]
	t.left -= (s.now - t.since) / t.share
	t.since, t.share = s.now, share
	s.plan(id)
}

// plan adds the event of a transfer's end, if nothing changes before.
func (s *sharing) plan(id int32) {
	t := &s.transfers[id]
	t.version++
	s.ends.push(event{ready: t.since + t.left*t.share, task: id, cause: t.version})
}
