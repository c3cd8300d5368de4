// Package tracecsv reads and writes the traces of a run, trace.csv, and the memory in use
// over time, memory.csv.
package tracecsv

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"psim/internal/csvfile"
	"psim/schedules/graph"
)

// MaxNumber bounds the ranks, stages, microbatches and groups that a reader accepts, so that
// a damaged file cannot use up all memory.
const MaxNumber = 1<<20 - 1

// traceColumns are the columns of a trace CSV. The last three may be missing.
const traceColumns = "rank,stream,kind,stage,microbatch,start_ns,end_ns,bytes,part,peer" + readyColumn

// readyColumn is only in traces that know when tasks were ready.
const readyColumn = ",ready_ns"

// WriteTraceCSV writes a row per task, sorted by rank, stream and start: rank, stream, kind,
// stage, microbatch, start_ns, end_ns, bytes, part, peer, and ready_ns if it is known. The
// cell of a field that a task does not have is empty.
func WriteTraceCSV(w io.Writer, t *graph.Trace) error {
	columns := traceColumns
	if !t.KnowsReady() {
		columns = strings.TrimSuffix(columns, readyColumn)
	}
	out, order, streams := csvfile.NewWriter(w, columns), byRankAndStream(t), t.Graph.AllStreams()
	for replica := range int32(t.Graph.Replicas()) {
		for _, i := range order {
			task, span := t.Graph.TaskOf(i, replica), t.Span(i)
			out.Int(int64(task.Rank))
			out.Text(streams[task.Stream].Name)
			out.Text(task.Kind.String())
			optional(out, task.Stage)
			optional(out, task.Microbatch)
			out.Int(span.Start.Nanoseconds())
			out.Int(span.End.Nanoseconds())
			out.Int(task.Bytes)
			out.Int(int64(task.Part))
			if optional(out, task.Peer); t.KnowsReady() {
				out.Int(t.ReadyAt(i).Nanoseconds())
			}
			out.EndRow()
		}
	}
	return out.End()
}

// byRankAndStream lists the tasks by rank, stream, start and index.
func byRankAndStream(t *graph.Trace) []int32 {
	start, order := t.Graph.ByStream()
	streams := make([]int32, len(t.Graph.Streams))
	for s := range streams {
		streams[s] = int32(s)
	}
	slices.SortStableFunc(streams, func(a, b int32) int {
		return cmp.Compare(t.Graph.Streams[a].Rank, t.Graph.Streams[b].Rank)
	})
	list := make([]int32, 0, len(order))
	for _, s := range streams {
		tasks := order[start[s]:start[s+1]]
		slices.SortStableFunc(tasks, func(a, b int32) int { return cmp.Compare(t.Span(a).Start, t.Span(b).Start) })
		list = append(list, tasks...)
	}
	return list
}

// sorted sorts the numbers below n. Equal ones stay in ascending order.
func sorted(n int, compare func(a, b int32) int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(compare(a, b), cmp.Compare(a, b)) })
	return order
}

// optional writes a field that may be None.
func optional(out *csvfile.Writer, n int32) {
	if n == graph.None {
		out.Text("")
		return
	}
	out.Int(int64(n))
}

// ReadTraceCSV reads a trace that WriteTraceCSV has written. The trace's graph has streams
// and tasks, but no dependencies: it can be drawn and compared, but not run. If the columns
// part and peer are missing, they are read as empty; if ready_ns is missing, the trace does
// not know when tasks were ready. Errors name the line and the column.
func ReadTraceCSV(r io.Reader) (*graph.Trace, error) {
	rows, err := csvfile.NewReader(r, traceColumns, len("rank,stream,kind,stage,microbatch,start_ns,end_ns,bytes"))
	if err != nil {
		return nil, err
	}
	b := newTraceBuilder()
	for rows.Next() {
		b.add(rows)
	}
	if rows.Err != nil {
		return nil, rows.Err
	}
	if len(b.trace.Spans) == 0 {
		return nil, fmt.Errorf("line 2: the trace has no tasks")
	}
	if err := b.checkStreams(); err != nil {
		return nil, err
	}
	b.finish()
	return b.trace, nil
}

type streamKey struct {
	rank int32
	name string
}

// A traceBuilder collects the rows of a trace CSV.
type traceBuilder struct {
	trace     *graph.Trace
	streams   map[streamKey]int32
	stageRank map[int32]int32
	groups    map[int32]map[int32]bool // members of every group
	highest   struct{ rank, stage, microbatch, group int32 }
}

func newTraceBuilder() *traceBuilder {
	b := &traceBuilder{
		trace:     &graph.Trace{Graph: &graph.Graph{}},
		streams:   map[streamKey]int32{},
		stageRank: map[int32]int32{},
		groups:    map[int32]map[int32]bool{},
	}
	b.highest.stage, b.highest.microbatch, b.highest.group = -1, -1, -1
	return b
}

func (b *traceBuilder) add(row *csvfile.Reader) {
	kind, err := graph.ParseKind(row.Text("kind"))
	if err != nil {
		row.Fail("kind", err)
	}
	start, end := row.Number("start_ns", 0, math.MaxInt64), row.Number("end_ns", 0, math.MaxInt64)
	if end < start {
		row.Fail("end_ns", fmt.Errorf("%d is before the start, %d", end, start))
	}
	task := graph.Task{
		Kind: kind, Rank: int32(row.Number("rank", 0, MaxNumber)),
		Stage: optionalNumber(row, "stage"), Microbatch: optionalNumber(row, "microbatch"),
		Peer:  optionalNumber(row, "peer"),
		Bytes: row.NumberOr("bytes", 0, math.MaxInt64), Part: uint16(row.NumberOr("part", 0, math.MaxUint16)),
	}
	if row.Index("ready_ns") >= 0 {
		b.trace.Ready = append(b.trace.Ready, time.Duration(row.Number("ready_ns", 0, start)))
	}
	if row.Err != nil {
		return
	}
	task.Stream = b.stream(streamKey{task.Rank, row.Text("stream")})
	b.note(&task)
	b.trace.Graph.Add(task)
	b.trace.Spans = append(b.trace.Spans, graph.Span{Start: time.Duration(start), End: time.Duration(end)})
}

func (b *traceBuilder) stream(key streamKey) int32 {
	s, ok := b.streams[key]
	if !ok {
		s = b.trace.Graph.AddStream(key.rank, key.name)
		b.streams[key] = s
	}
	return s
}

// note records what the graph's shape, placement and groups are derived from.
func (b *traceBuilder) note(t *graph.Task) {
	h := &b.highest
	h.rank = max(h.rank, t.Rank)
	h.stage, h.microbatch = max(h.stage, t.Stage), max(h.microbatch, t.Microbatch)
	if rank, ok := b.stageRank[t.Stage]; t.Stage != graph.None && (!ok || t.Rank < rank) {
		b.stageRank[t.Stage] = t.Rank
	}
	switch {
	case t.Kind.Message():
		h.rank = max(h.rank, t.Peer)
	case t.Kind.Collective():
		h.group = max(h.group, t.Peer)
		if b.groups[t.Peer] == nil {
			b.groups[t.Peer] = map[int32]bool{}
		}
		b.groups[t.Peer][t.Rank] = true
	}
}

// checkStreams returns an error if tasks of one stream run at the same time: a stream runs one
// task after another.
func (b *traceBuilder) checkStreams() error {
	t := b.trace
	order := sorted(len(t.Spans), func(x, y int32) int {
		return cmp.Or(cmp.Compare(t.Graph.Class(x).Stream, t.Graph.Class(y).Stream),
			cmp.Compare(t.Spans[x].Start, t.Spans[y].Start), cmp.Compare(t.Spans[x].End, t.Spans[y].End))
	})
	for k := 1; k < len(order); k++ {
		before, i := order[k-1], order[k]
		stream := t.Graph.Class(i).Stream
		if stream == t.Graph.Class(before).Stream && t.Spans[i].Start < t.Spans[before].End {
			return fmt.Errorf("row %d after the header starts at %d ns, "+
				"but row %d is on the same stream, %s of rank %d, until %d ns",
				i+1, t.Spans[i].Start.Nanoseconds(),
				before+1, t.Graph.Streams[stream].Name, t.Graph.Class(i).Rank, t.Spans[before].End.Nanoseconds())
		}
	}
	return nil
}

// finish fills in the parts of the graph that are known only after the last row.
func (b *traceBuilder) finish() {
	g, h := b.trace.Graph, b.highest
	g.Shape = graph.Shape{Ranks: int(h.rank) + 1, Virtual: 1, Microbatches: int(h.microbatch) + 1, Replicas: 1}
	g.Placement.First = make([]int32, h.stage+1)
	for s, r := range b.stageRank {
		g.Placement.First[s] = r
	}
	b.connectGroups()
}

// connectGroups lists the members of every group. A collective without a group gets one that
// has only its own rank.
func (b *traceBuilder) connectGroups() {
	g := b.trace.Graph
	g.Groups = make([][]int32, b.highest.group+1)
	for group, members := range b.groups {
		if group == graph.None {
			continue
		}
		for r := range members {
			g.Groups[group] = append(g.Groups[group], r)
		}
		slices.Sort(g.Groups[group])
	}
	single := map[int32]int32{} // by rank
	for i := range g.Classes {  // every task has a class of its own
		t := &g.Classes[i]
		if !t.Kind.Collective() || t.Peer != graph.None {
			continue
		}
		group, ok := single[t.Rank]
		if !ok {
			group = g.AddGroup([]int32{t.Rank})
			single[t.Rank] = group
		}
		t.Peer = group
	}
}

// optionalNumber reads a small number, or None from an empty cell.
func optionalNumber(row *csvfile.Reader, column string) int32 {
	return int32(row.Optional(column, MaxNumber, graph.None))
}
