package graph

import (
	"cmp"
	"math"
	"slices"
)

// A Host is the threads that launch tasks on devices. A thread launches its
// tasks one after another and does not wait for them to run, as with CUDA's
// streams: it may be ahead of its devices, and a device whose thread is behind
// stands still.
//
// A task starts when it is ready, but no earlier than its launch lead after its launch
// begins. So spans show what devices do, and the gap before them what they wait
// for, although that is really spread over the task.
type Host struct {
	// Before[i] is the task that the thread of task i launches before it, or
	// None. Nil means None for all, as is right for threads that wait.
	Before []int32
	// Queue is how far a thread may be ahead: it begins to launch a task when
	// the one so many places before it on its stream has started. 0 is no limit.
	Queue int
	// Waits says that a thread begins to launch a task when it is ready, as
	// where messages are received synchronously.
	Waits bool
}

// LaunchOrder is Host.Before for threads that launch the computing tasks of
// ranks: thread[r] is that of rank r. Several ranks may have the same, as
// where one process drives several devices. A thread goes by clock cycle,
// counted as if every task took one, and in a cycle by stage: the order of
// torchgpipe's loop (Kim et al. 2020, section 3.2).
func LaunchOrder(g *Graph, thread []int32) []int32 {
	cycle := g.cycles()
	last := map[int32]int32{}
	before := make([]int32, len(g.Tasks))
	var order []int32
	for i := range g.Tasks {
		before[i] = None
		if g.Tasks[i].Kind.Compute() {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(cycle[a], cycle[b]), cmp.Compare(g.Tasks[a].Stage, g.Tasks[b].Stage))
	})
	for _, i := range order {
		t := thread[g.Tasks[i].Rank]
		if b, ok := last[t]; ok {
			before[i] = b
		}
		last[t] = i
	}
	return before
}

// cycles tells when every task would end if computing tasks took one unit of time
// and others none. Those of tasks that can never run come last.
func (g *Graph) cycles() []int32 {
	w := newWaits(g)
	previous := slices.Repeat([]int32{None}, len(g.Streams))
	for i := range g.Tasks {
		for _, d := range g.Deps(int32(i)) {
			w.add(d, int32(i))
		}
		if p := previous[g.Tasks[i].Stream]; p != None {
			w.add(p, int32(i))
		}
		previous[g.Tasks[i].Stream] = int32(i)
	}
	w.run(func(i int32) bool { return g.Tasks[i].Kind.Compute() })
	for i := range g.Tasks {
		w.cycle[i] = w.cycle[w.node[i]]
		if w.missing[w.node[i]] > 0 {
			w.cycle[i] = math.MaxInt32
		}
	}
	return w.cycle
}

// waits knows which tasks wait for which. The tasks of one fused collective are a
// single node, named by the first of them.
type waits struct {
	node    []int32
	after   [][]int32 // by node: the nodes that wait for it
	missing []int32   // by node: how many it waits for
	cycle   []int32   // by node
}

func newWaits(g *Graph) *waits {
	n := len(g.Tasks)
	w := &waits{node: make([]int32, n), after: make([][]int32, n), missing: make([]int32, n), cycle: make([]int32, n)}
	type place struct{ group, rank int32 }
	met := map[place]int{}                   // how many collectives of a group a rank had
	firsts := make([][]int32, len(g.Groups)) // the first task of each
	for i := range g.Tasks {
		t := &g.Tasks[i]
		w.node[i] = int32(i)
		if !t.Kind.Collective() {
			continue
		}
		k := met[place{t.Peer, t.Rank}]
		met[place{t.Peer, t.Rank}]++
		if k == len(firsts[t.Peer]) {
			firsts[t.Peer] = append(firsts[t.Peer], int32(i))
		}
		w.node[i] = firsts[t.Peer][k]
	}
	return w
}

func (w *waits) add(before, after int32) {
	b, a := w.node[before], w.node[after]
	w.after[b] = append(w.after[b], a)
	w.missing[a]++
}

// run gives every node that can run its cycle.
func (w *waits) run(counts func(node int32) bool) {
	var ready []int32
	for i, node := range w.node {
		if node == int32(i) && w.missing[i] == 0 {
			ready = append(ready, node)
		}
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		if counts(i) {
			w.cycle[i]++
		}
		for _, j := range w.after[i] {
			w.cycle[j] = max(w.cycle[j], w.cycle[i])
			if w.missing[j]--; w.missing[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
}
