package reports

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"psim/internal/files"
	"psim/schedules/graph"
)

// AllRanks asks WriteChrome for one file of all ranks.
const AllRanks = -1

// WriteChrome writes a trace in the Chrome JSON of PyTorch's profiler, which
// opens in Perfetto: a process per rank, a thread per stream, a counter of the
// memory in use, and arrows from messages to what waited for them. Holistic
// Trace Analysis wants a file per rank: give the rank, or AllRanks.
func WriteChrome(w io.Writer, t *graph.Trace, rank int) error {
	if rank != AllRanks && (rank < 0 || rank >= t.Graph.Ranks()) {
		return fmt.Errorf("rank %d is outside 0 to %d", rank, t.Graph.Ranks()-1)
	}
	c := &chrome{out: bufio.NewWriter(w), trace: t, rank: rank}
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

// ChromeFile returns the trace of a run for Perfetto, compressed where the path ends
// in .gz.
func (r Run) ChromeFile(path string) files.File {
	return files.File{Path: path, Render: func(w io.Writer) error {
		if !strings.HasSuffix(path, ".gz") {
			return WriteChrome(w, r.Trace, AllRanks)
		}
		z := gzip.NewWriter(w)
		if err := WriteChrome(z, r.Trace, AllRanks); err != nil {
			return err
		}
		return z.Close()
	}}
}

type chrome struct {
	out    *bufio.Writer
	trace  *graph.Trace
	rank   int
	events int
	thread []int // of every task
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
	for i, s := range c.trace.Graph.Streams {
		if c.shows(s.Rank) {
			c.name(s.Rank, i, i, s.Name)
		}
	}
}

func (c *chrome) name(rank int32, thread, order int, name string) {
	c.event(`"ph": "M", "name": "thread_name", "pid": %d, "tid": %d, "args": {"name": %s}`, rank, thread, jsonString(name))
	c.event(`"ph": "M", "name": "thread_sort_index", "pid": %d, "tid": %d, "args": {"sort_index": %d}`, rank, thread, order)
}

// slices writes the tasks, by stream and start. A thread may not overlap
// itself: what would, as two clocks can make it in a measured trace, goes to a
// thread of its own.
func (c *chrome) slices() {
	g, spans := c.trace.Graph, c.trace.Spans
	c.thread = make([]int, len(g.Tasks))
	start, order := g.ByStream()
	threads := len(g.Streams)
	for s, stream := range g.Streams {
		tasks := order[start[s]:start[s+1]]
		if !c.shows(stream.Rank) {
			continue
		}
		slices.SortStableFunc(tasks, func(a, b int32) int { return cmp.Compare(spans[a].Start, spans[b].Start) })
		lanes := []lane{{id: s}}
		for _, i := range tasks {
			k := slices.IndexFunc(lanes, func(l lane) bool { return l.end <= spans[i].Start })
			if k < 0 {
				k = len(lanes)
				lanes = append(lanes, lane{id: threads})
				c.name(stream.Rank, threads, s, stream.Name+" (overlapping)")
				threads++
			}
			lanes[k].end = spans[i].End
			c.thread[i] = lanes[k].id
			c.slice(i)
		}
	}
}

// lane tells when a thread is free.
type lane struct {
	id  int
	end time.Duration
}

func (c *chrome) slice(i int32) {
	t, span := &c.trace.Graph.Tasks[i], c.trace.Spans[i]
	c.event(`"ph": "X", "cat": "kernel", "name": %s, "pid": %d, "tid": %d, "ts": %s, "dur": %s, "args": {%s}`,
		jsonString(chromeName(t)), t.Rank, c.thread[i], micros(span.Start), micros(span.Duration()), c.details(i))
}

// chromeName names a slice. Trace analysis takes for communication
// what starts with nccl.
func chromeName(t *graph.Task) string {
	switch {
	case t.Kind.Compute():
		return "PP:" + t.String()
	case t.Kind.Communication():
		return "nccl:" + t.String()
	}
	return t.String()
}

// details lists the arguments of a slice.
func (c *chrome) details(i int32) string {
	t := &c.trace.Graph.Tasks[i]
	s := fmt.Sprintf(`"device": %d, "stream": %d, "correlation": %d, "kind": "%s"`, t.Rank, t.Stream, i, t.Kind)
	for _, field := range []struct {
		name string
		n    int32
	}{{"stage", t.Stage}, {"microbatch", t.Microbatch}, {"peer", t.Peer}} {
		if field.n != graph.None {
			s += fmt.Sprintf(`, "%s": %d`, field.name, field.n)
		}
	}
	if t.Bytes > 0 {
		s += fmt.Sprintf(`, "bytes": %d`, t.Bytes)
	}
	return s
}

// arrows writes a flow from every message, or from what it carries where it
// takes no time, to each task that waited for it.
func (c *chrome) arrows() {
	g, id := c.trace.Graph, 0
	for i := range int32(len(g.Tasks)) {
		for _, d := range g.Deps(i) {
			from := &g.Tasks[d]
			if !from.Kind.Message() || !c.shows(from.Rank) || !c.shows(g.Tasks[i].Rank) {
				continue
			}
			source := d
			if c.trace.Spans[d].Duration() == 0 && len(g.Deps(d)) > 0 {
				source = g.Deps(d)[0]
			}
			id++
			c.flow("s", "", source, max(c.trace.Spans[source].Start, c.trace.Spans[source].End-1), id)
			c.flow("f", `, "bp": "e"`, i, c.trace.Spans[i].Start, id)
		}
	}
}

// flow writes one end of an arrow.
func (c *chrome) flow(phase, binding string, task int32, at time.Duration, id int) {
	c.event(`"ph": "%s"%s, "cat": "message", "name": "message", "id": %d, "pid": %d, "tid": %d, "ts": %s`,
		phase, binding, id, c.trace.Graph.Tasks[task].Rank, c.thread[task], micros(at))
}

// memory writes the memory in use as a counter of every rank that has any.
func (c *chrome) memory() {
	for _, curve := range MemoryCurves(c.trace) {
		if !c.shows(int32(curve.Rank)) || curve.Peak() == 0 {
			continue
		}
		points := append([]MemoryPoint{{Bytes: curve.Persistent}}, curve.Points...)
		for i, p := range points {
			if i+1 < len(points) && points[i+1].At == p.At {
				continue // only the last level of an instant can be seen
			}
			c.event(`"ph": "C", "cat": "memory", "name": "memory", "pid": %d, "tid": 0, "ts": %s, "args": {"bytes": %d}`, curve.Rank, micros(p.At), p.Bytes)
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
