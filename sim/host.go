package sim

import (
	"cmp"
	"slices"
	"time"

	"psim/schedules/graph"
)

// threads are the state of the host threads that launch tasks.
type threads struct {
	host     *graph.Host     // nil if launching costs nothing
	launched []time.Duration // by thread: when it had launched its last computing task
	last     []int32         // by thread: its last computing task, or none
	// before has, by task, the task that its thread launches before it. It is empty if that is
	// always the task before it on its stream.
	before  []int32
	started [][]recent // by stream: a ring of the last Host.Queue tasks that have started
	count   []int      // by stream: tasks that have started
}

// A recent is a task that has started.
type recent struct {
	at   time.Duration
	task int32
}

// reset prepares the threads for a graph.
func (h *threads) reset(g *graph.Graph, host *graph.Host) error {
	h.host, h.before, h.started, h.count = host, h.before[:0], nil, nil
	if host == nil {
		return nil
	}
	n := 0
	for _, thread := range host.Thread {
		n = max(n, int(thread)+1)
	}
	h.launched, h.last = filled(h.launched, n, 0), filled(h.last, n, none)
	if host.Queue > 0 {
		h.started, h.count = make([][]recent, len(g.Streams)), make([]int, len(g.Streams))
	}
	if host.Thread == nil || oneStream(g, host) {
		return nil
	}
	var err error
	h.before, err = launchOrder(g, host.Thread)
	return err
}

// oneStream reports whether every thread launches computing tasks of one stream only, and so in
// the order of the stream.
func oneStream(g *graph.Graph, host *graph.Host) bool {
	stream := map[int32]int32{} // by thread
	for i := range g.Classes {
		t := &g.Classes[i]
		if !t.Kind.Compute() {
			continue
		}
		thread := host.Thread[t.Rank]
		if s, ok := stream[thread]; ok && s != t.Stream {
			return false
		}
		stream[thread] = t.Stream
	}
	return true
}

// launchOrder returns, by task, the task that its thread launches before it, or none. It finds
// clock cycles by simulating a step in which every computing task takes one unit of time and
// all others take none.
func launchOrder(g *graph.Graph, thread []int32) ([]int32, error) {
	cycles, err := Run(g, graph.Costs{Task: func(t *graph.Task) graph.Cost {
		if t.Kind.Compute() {
			return graph.Cost{Busy: 1}
		}
		return graph.Cost{}
	}})
	if err != nil {
		return nil, err
	}
	var order []int32
	for i, row := range g.Rows {
		if g.Classes[row.Class].Kind.Compute() {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		byCycle := cmp.Compare(cycles.Released[a], cycles.Released[b])
		return cmp.Or(byCycle, cmp.Compare(g.Class(a).Stage, g.Class(b).Stage))
	})
	before, last := filled[int32](nil, g.Len(), none), map[int32]int32{}
	for _, i := range order {
		t := thread[g.Class(i).Rank]
		if b, ok := last[t]; ok {
			before[i] = b
		}
		last[t] = i
	}
	return before, nil
}

// previous returns the task that has to be launched before task i, or none.
func (h *threads) previous(i int32) int32 {
	if len(h.before) == 0 {
		return none
	}
	return h.before[i]
}

// launch returns when a ready task can start, given when its host thread launches its kernels, and
// the task that determines that time.
func (e *Engine) launch(c candidate) (time.Duration, int32) {
	h := &e.threads
	begin, why := time.Duration(0), none
	later := func(at time.Duration, task int32) {
		if at > begin {
			begin, why = at, task
		}
	}
	thread := none
	if h.host.Thread != nil && c.price.Kind.Compute() {
		thread = h.host.Thread[e.graph.Streams[c.stream].Rank]
		later(h.launched[thread], h.last[thread])
	}
	if h.host.Waits {
		later(c.ready, c.cause)
	}
	if started, ok := h.limit(c.stream); ok {
		later(started.at, started.task)
	}
	if thread != none {
		h.launched[thread], h.last[thread] = begin+c.price.Launch, c.task
	}
	start, cause := c.ready, c.cause
	if at := begin + c.price.Lead; at > start {
		start, cause = at, why
	}
	h.note(c.stream, recent{start, c.task})
	return start, cause
}

// limit returns the task that must have started before a thread may launch the next task of a
// stream. It returns false if there is none.
func (h *threads) limit(s int32) (recent, bool) {
	if h.started == nil || h.count[s] < h.host.Queue {
		return recent{}, false
	}
	return h.started[s][h.count[s]%h.host.Queue], true
}

// note records a task of a stream that has started.
func (h *threads) note(s int32, r recent) {
	if h.started == nil {
		return
	}
	if h.count[s] < h.host.Queue {
		h.started[s] = append(h.started[s], r)
	} else {
		h.started[s][h.count[s]%h.host.Queue] = r
	}
	h.count[s]++
}
