package sim

import (
	"math"
	"slices"
	"time"

	"psim/schedules/graph"
)

// shareCores finds how long every task takes next to those that run at the same time on
// the same cores, and puts that into its price: in a graph with a class for every task. It goes
// from instant to instant at which a task starts or ends, and
// between two of them all tasks run at a constant speed: a task is done when its time
// alone has been worked off. What cannot run to its end keeps its time alone, and Run says why.
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

	order, head, end []int32         // as in the engine
	busy             []bool          // by stream: its head runs
	released         []time.Duration // by task: end plus delay, or unfinished
	prices           []graph.Price   // by task: alone
	took             []time.Duration // by task

	now     time.Duration
	later   time.Duration // when the next delay is over; 0 for none
	running []work
	held    map[int32]bool // links
	onCore  map[int32]int  // tasks that run, by core; 0 stands for all if none is pinned
}

// A work is a task that runs, or a collective, whose ranks begin and end together.
type work struct {
	tasks []int32
	begin time.Duration
	left  float64 // nanoseconds alone
	speed float64
}

// start begins what can begin now, links' tasks in the order in which they queue, and
// reports whether anything runs or will.
func (c *crowd) start() bool {
	for c.settle() {
	}
	return len(c.running) > 0 || c.later > 0
}

// settle begins what is ready, and ends what takes no time; false if there was nothing.
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
			if q, ok := first[c.prices[i].Link]; !ok || at < q.since || at == q.since && i < q.task {
				first[c.prices[i].Link] = queued{i, at}
			}
		default:
			c.begin(i)
			began = true
		}
	}
	for link, q := range first {
		if !began && !c.held[link] { // whatever else begins now may be ahead in the queue
			c.held[link] = true
			c.begin(q.task)
			return true
		}
	}
	return began
}

// A queued task waits for a link.
type queued struct {
	task  int32
	since time.Duration
}

// ready returns the head of a stream and when it can begin; false where it runs, or waits
// for what has not ended.
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

// core returns the one that a task runs on.
func (c *crowd) core(i int32) int32 {
	if c.cores.Pinned && c.cores.Number > 0 {
		return c.graph.Classes[i].Rank % int32(c.cores.Number)
	}
	return 0
}

// run goes on to the next instant at which something ends or a delay is over.
func (c *crowd) run() {
	next := time.Duration(math.MaxInt64)
	if c.later > 0 {
		next = c.later
	}
	others := c.others()
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

// others returns how many ranks run something.
func (c *crowd) others() int {
	ranks := map[int32]bool{}
	for _, w := range c.running {
		for _, i := range w.tasks {
			ranks[c.graph.Classes[i].Rank] = true
		}
	}
	return len(ranks)
}

// speed returns how much of a task's time alone passes in a unit of time while so many
// ranks run something.
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
