package sim_test

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// A plain engine simulates as [sim.Engine] does, for comparison: task by task, each priced by
// itself, with lists in place of numbers that mean several things.
type plain struct {
	graph    *graph.Graph
	costs    graph.Costs
	trace    *graph.Trace // as if it had been measured
	cause    []int32      // by task
	left     [][]int32    // by stream: tasks that have not run
	tasks    [][]int32    // by stream: all
	free     []time.Duration
	last     []int32
	released []time.Duration // by task; −1 until it has run
	launched []time.Duration // by task
	before   []int32         // by task: the one that its thread launches before it
	links    []waiting
	linkFree map[int32]time.Duration
	linkLast map[int32]int32
	arrived  map[int32][]waiting // by group
}

// waiting is the head of a stream that waits for a link, or for its group.
type waiting struct {
	ready       time.Duration
	task, cause int32
}

// plainly runs a graph; the error says only that it has no end.
func plainly(g *graph.Graph, costs graph.Costs) (*plain, error) {
	p := &plain{
		graph: g, costs: costs, cause: make([]int32, g.Len()), free: make([]time.Duration, len(g.Streams)),
		trace: &graph.Trace{Graph: g, Persistent: costs.Persistent, Spans: make([]graph.Span, g.Len())},
		last:  slices.Repeat([]int32{graph.None}, len(g.Streams)), released: slices.Repeat([]time.Duration{-1}, g.Len()),
		linkFree: map[int32]time.Duration{}, linkLast: map[int32]int32{}, arrived: map[int32][]waiting{},
		launched: make([]time.Duration, g.Len()), before: slices.Repeat([]int32{graph.None}, g.Len()),
	}
	start, order := g.ByStream()
	for s := range g.Streams {
		p.left = append(p.left, order[start[s]:start[s+1]])
	}
	p.tasks = slices.Clone(p.left)
	if costs.Host != nil {
		p.trace.Ready = make([]time.Duration, g.Len())
		if err := p.findLaunches(costs.Host.Thread); err != nil {
			return nil, err
		}
	}
	for p.settle() || p.grant() {
	}
	if slices.Contains(p.released, -1) {
		return p, errors.New("blocked")
	}
	ordertest.SortMemory(p.trace, p.trace.Memory)
	return p, nil
}

// findLaunches finds the order in which threads launch tasks (see graph.Host).
func (p *plain) findLaunches(thread []int32) error {
	if thread == nil {
		return nil
	}
	cycles, err := plainly(p.graph, graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind.Compute() {
			return graph.Cost{Busy: 1}
		}
		return graph.Cost{}
	}})
	if err != nil {
		return err
	}
	var order []int32
	for i, task := range p.graph.Tasks() {
		if task.Kind.Compute() {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(cycles.trace.Spans[a].End, cycles.trace.Spans[b].End), cmp.Compare(p.graph.Task(a).Stage, p.graph.Task(b).Stage))
	})
	last := map[int32]int32{}
	for _, i := range order {
		t := thread[p.graph.Task(i).Rank]
		if b, ok := last[t]; ok {
			p.before[i] = b
		}
		last[t] = i
	}
	return nil
}

// settle runs all tasks that need not queue, and reports whether there were any.
func (p *plain) settle() (any bool) {
	for s := range p.left {
		for len(p.left[s]) > 0 && p.step(s) {
			any = true
		}
	}
	return any
}

// step runs the head of a stream, or puts it where it waits.
func (p *plain) step(s int) bool {
	i := p.left[s][0]
	w, ok := p.ready(s, i)
	b := p.before[i]
	if !ok || b != graph.None && p.released[b] < 0 || slices.ContainsFunc(p.links, func(q waiting) bool { return q.task == i }) {
		return false
	}
	task := p.graph.Task(i)
	cost := p.costs.Task(&task)
	switch {
	case task.Kind.Collective():
		return p.join(task.Peer, w)
	case cost.Link > 0:
		p.links = append(p.links, w)
		return false
	}
	p.finish(p.launch(w, &cost, len(p.tasks[s])-len(p.left[s])), &cost)
	return true
}

// ready tells when the head of a stream may start, and why; false if not all it needs has run.
// Behind a task of its stream on the same link it queues from when what it depends on has ended.
func (p *plain) ready(s int, i int32) (w waiting, ok bool) {
	w = waiting{p.free[s], i, p.last[s]}
	var since time.Duration
	for _, d := range p.graph.Deps(i) {
		at := p.released[d]
		if at < 0 {
			return w, false
		}
		if since = max(since, at); at > w.ready {
			w.ready, w.cause = at, d
		}
	}
	if last := p.last[s]; last != graph.None {
		own, before := p.graph.Task(i), p.graph.Task(last)
		if link := p.costs.Task(&own).Link; link > 0 && !own.Kind.Collective() && p.costs.Task(&before).Link == link {
			w.ready = since
		}
	}
	return w, true
}

// join has a rank wait for its group. The last to arrive runs the collective on all.
func (p *plain) join(group int32, w waiting) bool {
	if slices.Contains(p.arrived[group], w) {
		return false
	}
	p.arrived[group] = append(p.arrived[group], w)
	if len(p.arrived[group]) < len(p.graph.Groups[group]) {
		return false
	}
	last := slices.MinFunc(p.arrived[group], func(a, b waiting) int {
		return cmp.Or(cmp.Compare(b.ready, a.ready), cmp.Compare(p.graph.Task(a.task).Stream, p.graph.Task(b.task).Stream))
	})
	for _, a := range p.arrived[group] {
		task := p.graph.Task(a.task)
		cost := p.costs.Task(&task)
		p.finish(waiting{last.ready, a.task, last.cause}, &cost)
	}
	p.arrived[group] = nil
	return true
}

// grant gives a link to the task that was ready first; false if none waits.
func (p *plain) grant() bool {
	if len(p.links) == 0 {
		return false
	}
	w := slices.MinFunc(p.links, func(a, b waiting) int { return cmp.Or(cmp.Compare(a.ready, b.ready), cmp.Compare(a.task, b.task)) })
	p.links = slices.DeleteFunc(p.links, func(q waiting) bool { return q == w })
	task := p.graph.Task(w.task)
	cost := p.costs.Task(&task)
	if free := p.linkFree[cost.Link]; free > w.ready {
		w.ready, w.cause = free, p.linkLast[cost.Link]
	}
	p.linkFree[cost.Link], p.linkLast[cost.Link] = w.ready+cost.Busy, w.task
	p.finish(w, &cost)
	return true
}

// launch delays a task, the n-th of its stream, until its host has launched it.
func (p *plain) launch(w waiting, cost *graph.Cost, n int) waiting {
	h := p.costs.Host
	if h == nil {
		return w
	}
	p.trace.Ready[w.task] = w.ready
	begin, why := time.Duration(0), int32(graph.None)
	later := func(at time.Duration, task int32) {
		if at > begin {
			begin, why = at, task
		}
	}
	if b := p.before[w.task]; b != graph.None {
		later(p.launched[b], b)
	}
	if h.Waits {
		later(w.ready, w.cause)
	}
	if stream := p.tasks[p.graph.Task(w.task).Stream]; h.Queue > 0 && n >= h.Queue {
		later(p.trace.Spans[stream[n-h.Queue]].Start, stream[n-h.Queue])
	}
	p.launched[w.task] = begin + cost.Launch
	if start := begin + cost.LaunchLead; start > w.ready {
		w.ready, w.cause = start, why
	}
	return w
}

// finish notes that a task has run.
func (p *plain) finish(w waiting, cost *graph.Cost) {
	task, i := p.graph.Task(w.task), w.task
	end := w.ready + cost.Busy
	p.trace.Spans[i], p.cause[i], p.released[i] = graph.Span{Start: w.ready, End: end}, w.cause, end+cost.Delay
	if p.trace.Ready != nil && (task.Kind.Collective() || cost.Link > 0) {
		p.trace.Ready[i] = w.ready
	}
	p.free[task.Stream], p.last[task.Stream] = end, i
	p.left[task.Stream] = p.left[task.Stream][1:]
	remember := func(at time.Duration, bytes int64, rank int32) {
		if bytes != 0 {
			p.trace.Memory = append(p.trace.Memory, graph.MemoryEvent{At: at, Bytes: bytes, Rank: rank, Task: i})
		}
	}
	to := task.Rank
	if task.Kind.Message() {
		to = task.Peer
	}
	remember(w.ready, cost.BytesAtStart, to)
	remember(end, cost.BytesAtEnd, task.Rank)
}

// path lists the tasks that determine when the step ends, as sim.CriticalPath does.
func (p *plain) path() (path []int32) {
	end := p.trace.End()
	last := slices.IndexFunc(p.trace.Spans, func(s graph.Span) bool { return s.End == end })
	for i := int32(last); i != graph.None; i = p.cause[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}
