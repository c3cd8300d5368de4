package graph

import (
	"math"
	"slices"
)

// Columns hold the tasks of a graph, in the order in which they were added. What a simulation
// reads together is stored together.
type Columns struct {
	Rows []Row
	// Skip is the distance to the next task of the same stream. It is 0 where the distance does
	// not fit, and for the last task of a stream.
	Skip []uint16
	// Microbatch is nil where the caller needs no microbatches, and where every task has a class
	// of its own.
	Microbatch []int32
	// More has the lists of dependencies of the tasks that have several: the number of
	// dependencies, then the dependencies. The last may be −2−k, for the k-th barrier.
	More []int32
	// Barriers lists the tasks of every barrier, for which many others wait. A task waits for those
	// that are on other streams than its own.
	Barriers [][]int32

	first, last []int32 // by stream; None where a stream has no tasks
}

// A Row is the class of a task and the tasks it depends on. The task before it on its stream is
// not listed: every task waits for that one.
type Row struct {
	Class int32 // index of Graph.Classes
	After int32 // a task, None, or −2−i for the list at Columns.More[i]
}

// MaxTasks is the largest number of tasks in a graph.
const MaxTasks = math.MaxInt32

// Len is the number of tasks.
func (c *Columns) Len() int { return len(c.Rows) }

// Reserve empties the columns and allocates memory for a number of tasks, with microbatches if
// names is set.
func (c *Columns) Reserve(tasks int, names bool) {
	c.Rows, c.Skip = reserved(c.Rows, tasks), reserved(c.Skip, tasks)
	c.More, c.first, c.last, c.Microbatch, c.Barriers = c.More[:0], c.first[:0], c.last[:0], nil, nil
	if names {
		c.Microbatch = make([]int32, 0, tasks)
	}
}

// reserved returns an empty slice with room for n, in the same memory if it suffices.
func reserved[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, 0, n)
	}
	return s[:0]
}

// Put appends a task of a class to a stream and returns its index.
func (c *Columns) Put(class, stream, microbatch int32) int32 {
	i := int32(len(c.Rows))
	c.Rows, c.Skip = append(c.Rows, Row{class, None}), append(c.Skip, 0)
	if c.Microbatch != nil {
		c.Microbatch = append(c.Microbatch, microbatch)
	}
	for int(stream) >= len(c.last) {
		c.first, c.last = append(c.first, None), append(c.last, None)
	}
	if stream < 0 {
		return i // Validate refuses the task
	}
	switch last := c.last[stream]; {
	case last == None:
		c.first[stream] = i
	case i-last <= math.MaxUint16:
		c.Skip[last] = uint16(i - last)
	}
	c.last[stream] = i
	return i
}

// Repeat copies the tasks of the first replica, which are all so far, for each of the others. Every
// replica has classes and streams of its own, as many as the first.
func (c *Columns) Repeat(replicas int, classes, streams int32) {
	n, more, barriers := int32(len(c.Rows)), int32(len(c.More)), c.Barriers
	for len(c.first) < int(streams) { // the last streams have no tasks
		c.first, c.last = append(c.first, None), append(c.last, None)
	}
	for d := int32(1); int(d) < replicas; d++ {
		for _, row := range c.Rows[:n] {
			row.Class += d * classes
			switch {
			case row.After >= 0:
				row.After += d * n
			case row.After < None:
				row.After -= d * more
			}
			c.Rows = append(c.Rows, row)
		}
		c.Skip = append(c.Skip, c.Skip[:n]...)
		if c.Microbatch != nil {
			c.Microbatch = append(c.Microbatch, c.Microbatch[:n]...)
		}
		for i := int32(0); i < more; i += 1 + c.More[i] {
			c.More = append(c.More, c.More[i])
			for _, on := range c.More[i+1 : i+1+c.More[i]] {
				if on < None {
					on -= d * int32(len(barriers))
				} else {
					on += d * n
				}
				c.More = append(c.More, on)
			}
		}
		for _, list := range barriers {
			c.Barriers = append(c.Barriers, slices.Clone(list))
			for k := range list {
				c.Barriers[len(c.Barriers)-1][k] += d * n
			}
		}
		for s := range streams {
			c.first, c.last = append(c.first, shifted(c.First(s), d*n)), append(c.last, shifted(c.Last(s), d*n))
		}
	}
}

// shifted returns the task a number of rows after task i, or None if i is.
func shifted(i, rows int32) int32 {
	if i == None {
		return None
	}
	return i + rows
}

// Barrier is how the k-th barrier stands at the end of a list of dependencies.
func Barrier(k int) int32 { return int32(-2 - k) }

// Wait sets the tasks that task i depends on; the last may be a [Barrier]. None is skipped.
func (c *Columns) Wait(i int32, deps ...int32) {
	n, one := 0, int32(None)
	for _, d := range deps {
		if d != None {
			n, one = n+1, d
		}
	}
	if n == 0 || n == 1 && one >= 0 {
		c.Rows[i].After = one
		return
	}
	c.Rows[i].After = -2 - int32(len(c.More))
	c.More = append(c.More, int32(n))
	for _, d := range deps {
		if d != None {
			c.More = append(c.More, d)
		}
	}
}

// List returns a list in [Row.After].
func (c *Columns) List(after int32) []int32 {
	list := c.More[-2-after:]
	return list[1 : 1+list[0]]
}

// First returns the first task of a stream, or None.
func (c *Columns) First(stream int32) int32 { return entry(c.first, stream) }

// Last returns the last task of a stream, or None.
func (c *Columns) Last(stream int32) int32 { return entry(c.last, stream) }

func entry(list []int32, stream int32) int32 {
	if int(stream) >= len(list) {
		return None // the stream has no tasks yet
	}
	return list[stream]
}

// Deps lists the tasks that task i depends on, without the one before it on its stream. The list
// must not be changed.
func (g *Graph) Deps(i int32) []int32 {
	switch on := g.Rows[i].After; {
	case on >= 0:
		return []int32{on}
	case on == None:
		return nil
	default:
		list := g.List(on)
		if list[len(list)-1] < None {
			return g.listed(i, list)
		}
		return list
	}
}

// listed returns the dependencies of task i that are in a list or of the barrier at its end.
func (g *Graph) listed(i int32, list []int32) []int32 {
	own, barrier := list[:len(list)-1], g.Barriers[-2-list[len(list)-1]]
	all := append(make([]int32, 0, len(own)+len(barrier)), own...)
	for _, d := range barrier {
		if g.Class(d).Stream != g.Class(i).Stream && !slices.Contains(own, d) {
			all = append(all, d)
		}
	}
	return all
}

// Next returns the task after task i on its stream, or None.
func (g *Graph) Next(i int32) int32 {
	if skip := g.Skip[i]; skip > 0 {
		return i + int32(skip)
	}
	stream := g.Class(i).Stream
	if i == g.last[stream] {
		return None
	}
	for i += math.MaxUint16 + 1; g.Class(i).Stream != stream; {
		i++
	}
	return i
}

// Before returns the task before task i on its stream, or None.
func (g *Graph) Before(i int32) int32 {
	stream := g.Class(i).Stream
	if i == g.first[stream] {
		return None
	}
	for i--; g.Class(i).Stream != stream; {
		i--
	}
	return i
}

// ByStream returns the tasks of every stream in order: those of stream s are
// order[start[s]:start[s+1]].
func (g *Graph) ByStream() (start, order []int32) {
	start = make([]int32, len(g.Streams)+1)
	for _, row := range g.Rows {
		start[g.Classes[row.Class].Stream+1]++
	}
	for s := 1; s < len(start); s++ {
		start[s] += start[s-1]
	}
	next := slices.Clone(start)
	order = make([]int32, g.Len())
	for i, row := range g.Rows {
		s := g.Classes[row.Class].Stream
		order[next[s]] = int32(i)
		next[s]++
	}
	return start, order
}
