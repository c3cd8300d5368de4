package sim

import (
	"maps"
	"math"
	"slices"
	"time"

	"psim/schedules/graph"
)

// shareCores sets the price of every task, in a graph with a class for every task, to how long it
// takes when it shares the cores with the tasks that run at the same time. It goes from one
// instant at which a task starts or ends to the next. In between all tasks run at constant speeds.
// A task is done when it has worked as long as it takes alone. A task that never
// runs, because of a deadlock, keeps its price; Run then reports the deadlock.
func shareCores(g *graph.Graph, cores graph.Cores, prices []graph.Price) {
	start, order := g.ByStream()
	c := &crowd{
		graph: g, cores: cores, order: order, head: start[:len(g.Streams)], end: slices.Clone(start[1:]),
		busy: make([]bool, len(g.Streams)), released: filled[time.Duration](nil, g.Len(), unfinished),
		prices: prices, took: make([]time.Duration, g.Len()), held: map[int32]bool{}, onCore: map[int32]int{},
	}
	for i := range prices {
		c.took[i] = prices[i].Busy
	}
	for c.start() {
		c.run()
	}
	for i := range prices {
		p := &prices[i]
		p.Busy, p.Release = c.took[i], c.took[i]+p.Delay()
	}
}

// A crowd is the state of tasks that share cores.
type crowd struct {
	graph *graph.Graph
	cores graph.Cores

	order     []int32         // tasks by stream
	head, end []int32         // by stream: its next task, and the end of its tasks, in order
	busy      []bool          // by stream: its head runs
	released  []time.Duration // by task: end plus delay, or unfinished
	prices    []graph.Price   // by task: what it takes alone
	took      []time.Duration // by task

	now     time.Duration
	later   time.Duration // when the next delay is over; 0 if nothing waits for one
	running []work
	held    map[int32]bool // links in use
	onCore  map[int32]int  // running tasks by core; all are on core 0 if they are not pinned
}

// A work is a running task, or a running collective, whose ranks begin and end together.
type work struct {
	tasks []int32
	begin time.Duration
	left  float64 // nanoseconds alone
	speed float64
}

// start begins all tasks that can begin now, those on links in the order in which they queue, and
// reports whether anything runs or waits for a delay.
func (c *crowd) start() bool {
	for c.settle() {
	}
	return len(c.running) > 0 || c.later > 0
}

// settle begins tasks that are ready, and finishes those that take no time. It returns false if
// there were none.
func (c *crowd) settle() (began bool) {
	c.later = 0
	first := map[int32]queued{} // by link
	arrived := map[int32][]int32{}
	for s := range c.head {
		i, at, ok := c.ready(s)
		if !ok {
			continue
		}
		switch t := &c.graph.Classes[i]; {
		case at > c.now:
			if c.later == 0 || at < c.later {
				c.later = at
			}
		case t.Kind.Collective():
			arrived[t.Peer] = append(arrived[t.Peer], i)
			if len(arrived[t.Peer]) == len(c.graph.Groups[t.Peer]) {
				c.begin(arrived[t.Peer]...)
				return true
			}
		case c.prices[i].Link > 0:
			since := c.queuesSince(s, i, at)
			if q, ok := first[c.prices[i].Link]; !ok || since < q.since || since == q.since && i < q.task {
				first[c.prices[i].Link] = queued{i, since}
			}
		default:
			c.begin(i)
			began = true
		}
	}
	if began {
		return true // tasks that become ready now may be ahead in the queues of links
	}
	for _, link := range slices.Sorted(maps.Keys(first)) {
		if !c.held[link] {
			c.held[link] = true
			c.begin(first[link].task)
			return true
		}
	}
	return false
}

// A queued task waits for a link.
type queued struct {
	task  int32
	since time.Duration
}

// ready returns the head of a stream and when it can begin. It returns false if the head runs
// already, or waits for a task that is still to end.
func (c *crowd) ready(s int) (i int32, at time.Duration, ok bool) {
	if c.busy[s] || c.head[s] == c.end[s] {
		return 0, 0, false
	}
	i = c.order[c.head[s]]
	if before := c.head[s] - 1; before >= 0 && c.graph.Classes[c.order[before]].Stream == int32(s) {
		p := c.order[before]
		at = c.released[p] - c.prices[p].Delay() // a delay holds nothing
	}
	for _, d := range c.graph.Deps(i) {
		if c.released[d] == unfinished {
			return 0, 0, false
		}
		at = max(at, c.released[d])
	}
	return i, at, true
}

// queuesSince returns the time from which the head of a stream queues for its link. As in
// [Engine.queue], that is when its dependencies ended if the task before it uses the same link.
func (c *crowd) queuesSince(s int, i int32, ready time.Duration) time.Duration {
	before := c.head[s] - 1
	if before < 0 {
		return ready
	}
	p := c.order[before]
	if c.graph.Classes[p].Stream != int32(s) || c.prices[p].Link != c.prices[i].Link {
		return ready
	}
	var since time.Duration
	for _, d := range c.graph.Deps(i) {
		since = max(since, c.released[d])
	}
	return since
}

func (c *crowd) begin(tasks ...int32) {
	w := work{tasks: slices.Clone(tasks), begin: c.now, left: float64(c.prices[tasks[0]].Busy)}
	for _, i := range tasks {
		c.busy[c.graph.Classes[i].Stream] = true
		c.onCore[c.core(i)]++
	}
	if w.left == 0 {
		c.finish(w)
		return
	}
	c.running = append(c.running, w)
}

func (c *crowd) finish(w work) {
	for _, i := range w.tasks {
		s := c.graph.Classes[i].Stream
		c.busy[s] = false
		c.head[s]++
		c.onCore[c.core(i)]--
		c.took[i], c.released[i] = c.now-w.begin, c.now+c.prices[i].Delay()
		if !c.graph.Classes[i].Kind.Collective() {
			delete(c.held, c.prices[i].Link)
		}
	}
}

// core returns the core that a task runs on.
func (c *crowd) core(i int32) int32 {
	if c.cores.Pinned && c.cores.Number > 0 {
		return c.graph.Classes[i].Rank % int32(c.cores.Number)
	}
	return 0
}

// run proceeds to the next instant at which a task ends or a delay is over.
func (c *crowd) run() {
	next := time.Duration(math.MaxInt64)
	if c.later > 0 {
		next = c.later
	}
	others := c.ranksRunning()
	ends := make([]time.Duration, len(c.running))
	for k := range c.running {
		w := &c.running[k]
		w.speed = math.Inf(1)
		for _, i := range w.tasks {
			w.speed = min(w.speed, c.speed(i, others))
		}
		ends[k] = c.now + max(1, time.Duration(math.Ceil(w.left/w.speed)))
		next = min(next, ends[k])
	}
	passed := float64(next - c.now)
	c.now = next
	still := c.running[:0]
	for k, w := range c.running {
		if ends[k] <= next {
			c.finish(w)
			continue
		}
		w.left -= passed * w.speed
		still = append(still, w)
	}
	c.running = still
}

// ranksRunning counts the ranks that run something.
func (c *crowd) ranksRunning() int {
	ranks := map[int32]bool{}
	for _, w := range c.running {
		for _, i := range w.tasks {
			ranks[c.graph.Classes[i].Rank] = true
		}
	}
	return len(ranks)
}

// speed returns the speed of a task, relative to its speed alone, while a number of ranks run
// something.
func (c *crowd) speed(i int32, ranks int) float64 {
	speed, all := 1.0, c.graph.Ranks()
	if n := c.cores.Number; n > 0 {
		all = min(all, n)
		own := n
		if c.cores.Pinned {
			own = 1
		}
		speed = min(1, float64(own)/float64(c.onCore[c.core(i)]))
	}
	if all > 1 && c.cores.Slower != nil {
		speed /= 1 + (c.cores.Slower(&c.graph.Classes[i])-1)*float64(min(ranks, all)-1)/float64(all-1)
	}
	return speed
}
