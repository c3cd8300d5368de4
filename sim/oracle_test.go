package sim_test

import (
	"slices"
	"time"

	"psim/schedules/graph"
)

// An oracle runs a graph the slow way: instant by instant, asking every stream
// at every instant whether its head may start. Links are explicit queues.
type oracle struct {
	graph     *graph.Graph
	cost      []graph.Cost // by task
	left      [][]int32    // by stream: the tasks that have not started
	spans     []graph.Span
	started   []bool
	ended     []time.Duration         // by stream: when its last task ends
	last      []int32                 // by stream: its last task that has started, or none
	linkFree  map[int32]time.Duration // when a link is free again
	readySeen map[int32]time.Duration // by queued task: since when it is ready
	done      int

	ports  *graph.Ports
	shared []bool // by port
	flows  []*flow
}

// A flow is a message or a collective under way.
type flow struct {
	tasks       []int32
	ports       []int32
	left, since time.Duration // what is left since then, if it were alone
	share       time.Duration
}

// far is the end of a flow whose end is not known yet.
const far = time.Duration(1 << 40)

// slow runs a graph to its end, or as far as it goes.
func slow(g *graph.Graph, costs graph.Costs) *oracle {
	o := &oracle{
		graph: g, left: make([][]int32, len(g.Streams)), spans: make([]graph.Span, g.Len()),
		started: make([]bool, g.Len()), ended: make([]time.Duration, len(g.Streams)),
		linkFree: map[int32]time.Duration{}, readySeen: map[int32]time.Duration{}, last: slices.Repeat([]int32{graph.None}, len(g.Streams)),
	}
	if o.ports = costs.Ports; o.ports != nil {
		o.shared = g.Shared(o.ports)
	}
	horizon := time.Duration(1)
	for i := range int32(g.Len()) {
		c := costs.Task(new(g.Task(i)))
		o.cost = append(o.cost, c)
		o.left[g.Task(i).Stream] = append(o.left[g.Task(i).Stream], int32(i))
		horizon += c.Busy + c.Delay
	}
	for now := time.Duration(0); now <= horizon && (o.done < g.Len() || len(o.flows) > 0); now++ {
		for o.finish(now) {
		}
		for o.settle(now) {
		}
		o.grant(now)
	}
	return o
}

// ready reports whether the head of a stream may start as far as its
// dependencies and its stream go.
func (o *oracle) ready(stream int, now time.Duration) bool {
	if len(o.left[stream]) == 0 || o.ended[stream] > now {
		return false
	}
	at, all := o.released(o.left[stream][0])
	return all && at <= now
}

// released tells when everything that a task depends on has ended, if all of it has started.
func (o *oracle) released(i int32) (at time.Duration, all bool) {
	for _, d := range o.graph.Deps(i) {
		if !o.started[d] {
			return 0, false
		}
		at = max(at, o.spans[d].End+o.cost[d].Delay)
	}
	return at, true
}

// line has the head of a stream queue for its link while its stream uses that, from when
// what it depends on has ended.
func (o *oracle) line(stream int, now time.Duration) {
	if len(o.left[stream]) == 0 || o.last[stream] == graph.None {
		return
	}
	i := o.left[stream][0]
	if link := o.cost[i].Link; link == 0 || o.cost[o.last[stream]].Link != link {
		return
	}
	if at, all := o.released(i); all && at <= now {
		o.readySeen[i] = at
	}
}

func (o *oracle) start(stream int, now time.Duration) {
	i := o.left[stream][0]
	o.spans[i] = graph.Span{Start: now, End: now + o.cost[i].Busy}
	o.started[i], o.ended[stream], o.last[stream] = true, o.spans[i].End, i
	o.left[stream] = o.left[stream][1:]
	o.done++
}

// flow makes tasks that have just started one flow, if they use shared ports.
func (o *oracle) flow(now time.Duration, tasks ...int32) {
	t, all := o.graph.Task(tasks[0]), []int32(nil)
	switch {
	case o.ports == nil || o.cost[tasks[0]].Busy == 0:
		return
	case t.Kind.Collective():
		all = o.ports.Groups[t.Peer]
	case t.Kind.Message():
		both := o.ports.Message(&t)
		all = slices.Compact(both[:])
	}
	f := &flow{tasks: tasks, left: o.cost[tasks[0]].Busy, since: now, share: 1}
	for _, port := range all {
		if o.shared[port] {
			f.ports = append(f.ports, port)
		}
	}
	if f.ports == nil {
		return
	}
	o.end(f, far)
	o.flows = append(o.flows, f)
	o.adjust(now)
}

// end sets the end of a flow.
func (o *oracle) end(f *flow, at time.Duration) {
	for _, i := range f.tasks {
		o.spans[i].End = at
		o.ended[o.graph.Task(i).Stream] = at
		if link := o.cost[i].Link; link > 0 && !o.graph.Task(i).Kind.Collective() {
			o.linkFree[link] = at
		}
	}
}

// adjust changes the shares of all flows: each is as fast as its slowest port lets it.
func (o *oracle) adjust(now time.Duration) {
	for _, f := range o.flows {
		most := time.Duration(0)
		for _, port := range f.ports {
			users := time.Duration(0)
			for _, other := range o.flows {
				if slices.Contains(other.ports, port) {
					users++
				}
			}
			most = max(most, users)
		}
		if most != f.share {
			f.left, f.since, f.share = f.left-(now-f.since)/f.share, now, most
		}
	}
}

// finish ends a flow that has nothing left, and reports whether there was one.
func (o *oracle) finish(now time.Duration) bool {
	for i, f := range o.flows {
		if f.since+f.left*f.share <= now {
			o.end(f, now)
			o.flows = slices.Delete(o.flows, i, i+1)
			o.adjust(now)
			return true
		}
	}
	return false
}

// settle starts what may start now and needs no link, and reports whether
// there was anything.
func (o *oracle) settle(now time.Duration) bool {
	before := o.done
	for s := range o.left {
		o.line(s, now)
		if !o.ready(s, now) {
			continue
		}
		i := o.left[s][0]
		switch {
		case o.graph.Task(i).Kind.Collective():
			o.meet(o.graph.Task(i).Peer, now)
		case o.cost[i].Link > 0:
			if _, queued := o.readySeen[i]; !queued {
				o.readySeen[i] = now
			}
		default:
			o.start(s, now)
		}
	}
	return o.done > before
}

// meet starts a fused collective if every rank of its group is at it.
func (o *oracle) meet(group int32, now time.Duration) {
	var streams []int
	for s := range o.left {
		if o.ready(s, now) {
			if t := o.graph.Task(o.left[s][0]); t.Kind.Collective() && t.Peer == group {
				streams = append(streams, s)
			}
		}
	}
	if len(streams) == len(o.graph.Groups[group]) {
		var tasks []int32
		for _, s := range streams {
			tasks = append(tasks, o.left[s][0])
			o.start(s, now)
		}
		o.flow(now, tasks...)
	}
}

// grant gives every free link to the task that has been ready for longest, of
// those the first of the graph. What uses a link takes some time, so that
// nothing else can become ready at this instant.
func (o *oracle) grant(now time.Duration) {
	first := map[int32]int32{}
	for i, since := range o.readySeen {
		link := o.cost[i].Link
		if j, ok := first[link]; !ok || since < o.readySeen[j] || since == o.readySeen[j] && i < j {
			first[link] = i
		}
	}
	for link, i := range first {
		if o.linkFree[link] <= now {
			o.start(int(o.graph.Task(i).Stream), now)
			o.linkFree[link] = o.spans[i].End
			o.flow(now, i)
			delete(o.readySeen, i)
		}
	}
}
