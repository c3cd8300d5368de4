// Package trace writes traces for viewers: Perfetto's protobuf and Chrome's JSON.
package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"psim/results/tracecsv"
	"psim/schedules/graph"
)

// AllRanks makes WriteChrome write one file of all ranks.
const AllRanks = -1

// WriteChrome writes a trace in the Chrome JSON of PyTorch's profiler, which opens in
// Perfetto: a process per rank, a thread per stream, a counter of the memory in use, and
// arrows from messages to the tasks that waited for them. It writes one rank, because
// Holistic Trace Analysis needs a file per rank, or AllRanks.
func WriteChrome(w io.Writer, t *graph.Trace, rank int) error {
	if rank != AllRanks && (rank < 0 || rank >= t.Graph.Ranks()) {
		return fmt.Errorf("rank %d is outside 0 to %d", rank, t.Graph.Ranks()-1)
	}
	c := &chrome{
		out: bufio.NewWriter(w), trace: t, rank: rank, streams: t.Graph.AllStreams(), thread: map[int32]int{},
	}
	fmt.Fprintf(c.out, `{
  "schemaVersion": 1,
  "distributedInfo": {
    "backend": "nccl",
    "rank": %d,
    "world_size": %d
  },
  "displayTimeUnit": "ms",
  "traceName": %s,
  "traceEvents": [`, max(0, rank), t.Graph.Ranks(), jsonString(t.Graph.Name))
	c.names()
	c.slices()
	c.arrows()
	c.memory()
	c.out.WriteString("\n  ]\n}\n")
	return c.out.Flush()
}

type chrome struct {
	out     *bufio.Writer
	trace   *graph.Trace
	rank    int
	events  int
	streams []graph.Stream // of all replicas
	thread  map[int32]int  // of the tasks that are not in the thread of their stream
}

// shows reports whether a rank is part of the file.
func (c *chrome) shows(rank int32) bool { return c.rank == AllRanks || int(rank) == c.rank }

func (c *chrome) event(format string, args ...any) {
	if c.events > 0 {
		c.out.WriteByte(',')
	}
	c.events++
	c.out.WriteString("\n    {")
	fmt.Fprintf(c.out, format, args...)
	c.out.WriteByte('}')
}

func (c *chrome) names() {
	for r := range int32(c.trace.Graph.Ranks()) {
		if c.shows(r) {
			c.event(`"ph": "M", "name": "process_name", "pid": %d, "tid": 0, "args": {"name": "rank %[1]d"}`, r)
			c.event(`"ph": "M", "name": "process_sort_index", "pid": %d, "tid": 0, "args": {"sort_index": %[1]d}`, r)
		}
	}
	for i, s := range c.streams {
		if c.shows(s.Rank) {
			c.name(s.Rank, i, i, s.Name)
		}
	}
}

func (c *chrome) name(rank int32, thread, order int, name string) {
	c.event(`"ph": "M", "name": "thread_name", "pid": %d, "tid": %d, "args": {"name": %s}`,
		rank, thread, jsonString(name))
	c.event(`"ph": "M", "name": "thread_sort_index", "pid": %d, "tid": %d, "args": {"sort_index": %d}`,
		rank, thread, order)
}

// slices writes the tasks, by stream and start. The slices of a thread may not overlap. If
// tasks of a stream do, which can happen in a measured trace because of different clocks,
// they are written as several threads.
func (c *chrome) slices() {
	start, order := c.trace.Graph.ByStream()
	threads, each := len(c.streams), len(start)-1
	var lanes lanes
	for s, stream := range c.streams {
		tasks := order[start[s%each]:start[s%each+1]]
		if !c.shows(stream.Rank) {
			continue
		}
		ids := []int{s}
		for task, lane := range lanes.of(c.trace, tasks) {
			if lane == len(ids) {
				c.name(stream.Rank, threads, s, stream.Name+" (overlapping)")
				ids = append(ids, threads)
				threads++
			}
			if lane > 0 {
				c.thread[task.task] = ids[lane]
			}
			c.slice(task, int32(s/each), ids[lane])
		}
	}
}

// A placed task is one with its times.
type placed struct {
	graph.Span
	task int32
}

// lanes are where the tasks of a stream go, so that none overlaps another. Its buffers serve one stream after another.
type lanes struct {
	tasks []placed
	free  []time.Duration // by lane: the end of its last task
}

// of yields the tasks of a stream by start, each with the first lane in which it does not overlap another task.
func (l *lanes) of(t *graph.Trace, tasks []int32) iter.Seq2[placed, int] {
	byStart := func(a, b placed) int { return cmp.Compare(a.Start, b.Start) }
	l.tasks, l.free = l.tasks[:0], l.free[:0]
	for _, i := range tasks {
		l.tasks = append(l.tasks, placed{t.Span(i), i})
	}
	if !slices.IsSortedFunc(l.tasks, byStart) {
		slices.SortStableFunc(l.tasks, byStart)
	}
	return func(yield func(placed, int) bool) {
		for _, task := range l.tasks {
			k := slices.IndexFunc(l.free, func(end time.Duration) bool { return end <= task.Start })
			if k < 0 {
				k = len(l.free)
				l.free = append(l.free, 0)
			}
			if l.free[k] = task.End; !yield(task, k) {
				return
			}
		}
	}
}

// slice writes the task with which a replica does what task i does.
func (c *chrome) slice(task placed, replica int32, thread int) {
	i, span := task.task, task.Span
	t := c.trace.Graph.TaskOf(i, replica)
	c.event(`"ph": "X", "cat": "kernel", "name": %s, "pid": %d, "tid": %d, "ts": %s, "dur": %s, "args": {%s}`,
		jsonString(chromeName(&t)), t.Rank, thread, micros(span.Start), micros(span.Duration()),
		c.details(int(replica)*c.trace.Graph.Len()+int(i), &t))
}

// chromeName names a slice. Holistic Trace Analysis counts slices as communication if their
// names start with nccl.
func chromeName(t *graph.Task) string {
	switch {
	case t.Kind.Compute():
		return "PP:" + t.String()
	case t.Kind == graph.ToHost:
		return "Memcpy DtoH:" + t.String()
	case t.Kind == graph.FromHost:
		return "Memcpy HtoD:" + t.String()
	case t.Kind.Communication():
		return "nccl:" + t.String()
	}
	return t.String()
}

// details lists the arguments of a slice.
func (c *chrome) details(i int, t *graph.Task) string {
	s := fmt.Sprintf(`"device": %d, "stream": %d, "correlation": %d, "kind": "%s"`, t.Rank, t.Stream, i, t.Kind)
	for name, n := range fields(t) {
		s += fmt.Sprintf(`, "%s": %d`, name, n)
	}
	return s
}

// fields yields the numbers of a task other than its rank.
func fields(t *graph.Task) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		_ = (t.Stage == graph.None || yield("stage", int64(t.Stage))) &&
			(t.Microbatch == graph.None || yield("microbatch", int64(t.Microbatch))) &&
			(t.Peer == graph.None || yield("peer", int64(t.Peer))) &&
			(t.Bytes == 0 || yield("bytes", t.Bytes))
	}
}

// arrows writes a flow from every message to the task that waited for it.
func (c *chrome) arrows() {
	id := 0
	for replica := range int32(c.trace.Graph.Replicas()) {
		for source, task := range waits(c.trace) {
			from, to := c.trace.Graph.TaskOf(source, replica), c.trace.Graph.TaskOf(task, replica)
			if !c.shows(from.Rank) || !c.shows(to.Rank) {
				continue
			}
			id++
			sent := c.trace.Span(source)
			c.flow(id, `"s"`, end{from, source, max(sent.Start, sent.End-1)})
			c.flow(id, `"f", "bp": "e"`, end{to, task, c.trace.Span(task).Start})
		}
	}
}

// An end of an arrow is at a task, which another may stand for.
type end struct {
	graph.Task
	index int32
	at    time.Duration
}

// flow writes one end of an arrow, in a phase that is JSON.
func (c *chrome) flow(id int, phase string, e end) {
	thread, apart := c.thread[e.index]
	if !apart {
		thread = int(e.Stream)
	}
	c.event(`"ph": %s, "cat": "message", "name": "message", "id": %d, "pid": %d, "tid": %d, "ts": %s`,
		phase, id, e.Rank, thread, micros(e.at))
}

// memory writes the memory in use as a counter of every rank that uses memory.
func (c *chrome) memory() {
	for curve := range tracecsv.EachCurve(c.trace) {
		if !c.shows(int32(curve.Rank)) || curve.Peak() == 0 {
			continue
		}
		for _, p := range curve.Levels() {
			const counter = `"ph": "C", "cat": "memory", "name": "memory", "pid": %d, "tid": 0, "ts": %s, ` +
				`"args": {"bytes": %d}`
			c.event(counter, curve.Rank, micros(p.At), p.Bytes)
		}
	}
}

// micros prints a time in microseconds with three decimals.
func micros(d time.Duration) string { return fmt.Sprintf("%d.%03d", d/1000, d%1000) }

// jsonString quotes a string. Names never fail to marshal.
func jsonString(s string) string {
	quoted, _ := json.Marshal(s)
	return string(quoted)
}
