package trace

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"psim/results/tracecsv"
	"psim/schedules/graph"
)

// WritePerfetto writes a trace in Perfetto's own format, protobuf: a process per
// replica, with a thread per rank and stream, a counter of every rank's memory, and
// flows from messages to the tasks that waited for them. Levels of memory are written with
// the starts and ends of the tasks that change it, and tracks once for all of their events.
func WritePerfetto(w io.Writer, t *graph.Trace) error {
	p := &perfetto{out: bufio.NewWriterSize(w, 1<<16), trace: t, streams: t.Graph.AllStreams(), flows: newFlows(t)}
	p.intern()
	p.tracks()
	p.tasks()
	return p.out.Flush()
}

// The fields and values of Perfetto's messages that are used here, as in
// testdata/perfetto.proto.
const (
	tracePacket = 1

	packetTime     = 8
	packetSequence = 10
	packetEvent    = 11
	packetNames    = 12
	packetFlags    = 13
	packetDefaults = 59
	packetTrack    = 60

	eventDefaults = 11

	namesReset = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	namesUsed  = 2 // SEQ_NEEDS_INCREMENTAL_STATE

	namesOfCategories = 1
	namesOfEvents     = 2
	namesOfNotes      = 3
	namesOfTexts      = 29
	internedNumber    = 1
	internedName      = 2

	trackID      = 1
	trackName    = 2
	trackProcess = 3
	trackThread  = 4
	trackParent  = 5
	trackCounter = 8
	trackOrder   = 11
	trackRank    = 12
	orderByRank  = 3 // EXPLICIT

	processID   = 1
	processName = 6

	threadProcess = 1
	threadID      = 2
	threadName    = 5

	counterUnit = 3
	unitBytes   = 3 // UNIT_SIZE_BYTES

	eventCategory  = 3
	eventNotes     = 4
	eventType      = 9
	eventNameOf    = 10
	eventTrack     = 11
	eventLevels    = 12
	eventName      = 23
	eventValue     = 30
	eventCounters  = 31
	eventFlow      = 47
	eventEndOfFlow = 48
	sliceBegin     = 1 // TYPE_SLICE_BEGIN
	sliceEnd       = 2 // TYPE_SLICE_END
	counterValue   = 4 // TYPE_COUNTER

	noteName    = 1
	noteInteger = 4
	noteText    = 17
)

// sequence is the number of the only sequence of packets.
const sequence = 1

type perfetto struct {
	out     *bufio.Writer
	trace   *graph.Trace
	streams []graph.Stream // of all replicas
	track   []uint64       // of every stream
	last    uint64         // the highest number of a track
	flows   flows
	memory  []levels // of the ranks of the replica whose tasks are written
	// The memory of the rank whose tasks are written, and of the one that gets its messages.
	own, peer reader
	counters  []uint64 // buffer
	lanes     lanes
	// Buffers for what is nested, the innermost last.
	outer, body, inner message
	names              message // that the next event needs
}

// message holds the fields of a protobuf message.
type message []byte

func (m message) number(field protowire.Number, n uint64) message {
	if field < 16 && n < 128 { // most of them
		return append(m, byte(field<<3), byte(n))
	}
	return binary.AppendUvarint(protowire.AppendTag(m, field, protowire.VarintType), n)
}

func (m message) fixed(field protowire.Number, n uint64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), n)
}

func (m message) text(field protowire.Number, text string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), text)
}

func (m message) nested(field protowire.Number, inner message) message {
	if field < 16 && len(inner) < 128 {
		return append(append(m, byte(field<<3|2), byte(len(inner))), inner...)
	}
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), inner)
}

// note appends an argument of a slice that is a number.
func (m message) note(name, n uint64) message {
	if n < 128 { // most of them
		return append(m, eventNotes<<3|2, 4, noteName<<3, byte(name), noteInteger<<3, byte(n))
	}
	m = append(m, eventNotes<<3|2, byte(3+protowire.SizeVarint(n)), noteName<<3, byte(name), noteInteger<<3)
	return binary.AppendUvarint(m, n)
}

// packet writes one packet. The first error stays with the writer.
func (p *perfetto) packet(m message) {
	p.out.Write(binary.AppendUvarint(append(p.out.AvailableBuffer(), tracePacket<<3|2), uint64(len(m))))
	p.out.Write(m)
}

// describe writes the description of a track.
func (p *perfetto) describe(track message) {
	p.packet(message(nil).number(packetSequence, sequence).nested(packetTrack, track))
}

// event writes an event, with the names that it needs and no event before it had.
func (p *perfetto) event(at time.Duration, event message) {
	m := binary.AppendUvarint(append(p.outer[:0], packetTime<<3), uint64(at))
	m = binary.AppendUvarint(append(m, packetSequence<<3, sequence, packetEvent<<3|2), uint64(len(event)))
	p.outer = append(m, event...)
	if len(p.names) > 0 {
		p.outer = p.outer.nested(packetNames, p.names)
	}
	p.outer = append(p.outer, packetFlags<<3, namesUsed)
	p.packet(p.outer)
}

// replica returns which copy of the network a rank belongs to.
func (p *perfetto) replica(rank int32) uint64 {
	return uint64(int(rank) / max(1, p.trace.Graph.Shape.Ranks))
}

// process returns the number of the process of a rank's replica, and of its track. Threads
// have higher numbers, so that no thread is mistaken for the main thread of a process.
func (p *perfetto) process(rank int32) uint64 { return 1 + p.replica(rank) }

// tracks describes the processes and threads.
func (p *perfetto) tracks() {
	g := p.trace.Graph
	replicas := max(1, g.Shape.Replicas)
	for r := range replicas {
		name := g.Name
		if replicas > 1 {
			name = fmt.Sprintf("%s replica %d", g.Name, r)
		}
		id := uint64(1 + r)
		process := message(nil).number(processID, id).text(processName, name)
		p.describe(message(nil).number(trackID, id).nested(trackProcess, process).number(trackOrder, orderByRank))
	}
	p.last = uint64(replicas)
	p.track = make([]uint64, len(p.streams))
	for s, stream := range p.streams {
		p.track[s] = p.thread(stream, "")
	}
}

// thread describes a thread and returns the number of its track.
func (p *perfetto) thread(stream graph.Stream, suffix string) uint64 {
	p.last++
	process := p.process(stream.Rank)
	thread := message(nil).number(threadProcess, process).number(threadID, p.last).
		text(threadName, fmt.Sprintf("rank %d %s%s", stream.Rank, stream.Name, suffix))
	p.describe(message(nil).number(trackID, p.last).nested(trackThread, thread).
		number(trackParent, process).number(trackRank, p.last))
	return p.last
}

// tasks writes the tasks of every replica, stream by stream, and the memory of its ranks.
func (p *perfetto) tasks() {
	start, order := p.trace.Graph.ByStream()
	each, replicas := len(start)-1, p.trace.Graph.Replicas()
	curves := tracecsv.MemoryCurves(p.trace)[:p.trace.Graph.Ranks()/replicas] // one replica's stand for all
	for replica := range replicas {
		p.levels(curves, replica*p.trace.Graph.Shape.Ranks)
		for s := range each {
			p.slices(replica*each+s, int32(replica), order[start[s]:start[s+1]])
		}
		for i := range p.memory {
			p.memory[i].rest(p)
		}
	}
}

// slices writes the tasks of a stream by start. The slices of a thread may not overlap, so that
// overlapping tasks of a stream are written as several threads.
func (p *perfetto) slices(s int, replica int32, tasks []int32) {
	stream := p.streams[s]
	p.own, p.peer = p.levelsOf(stream.Rank), reader{}
	p.assume(p.track[s])
	tracks := []uint64{0} // assumed
	for task, lane := range p.lanes.of(p.trace, tasks) {
		if lane == len(tracks) {
			tracks = append(tracks, p.thread(stream, " (overlapping)"))
		}
		p.slice(task, replica, tracks[lane])
	}
}

// assume sets the track of later events that name none, and the counter of their levels.
func (p *perfetto) assume(track uint64) {
	defaults := message(nil).number(eventTrack, track)
	if p.own.track != 0 {
		defaults = defaults.number(eventCounters, p.own.track)
	}
	p.packet(message(nil).number(packetSequence, sequence).
		nested(packetDefaults, message(nil).nested(eventDefaults, defaults)))
}

// slice writes the task with which a replica does what a task does. A track of 0 is the assumed one.
func (p *perfetto) slice(task placed, replica int32, track uint64) {
	i, span := task.task, task.Span
	t := p.trace.Graph.TaskOf(i, replica)
	if t.Kind.Message() && (p.peer.levels == nil || p.peer.rank != t.Peer) {
		p.peer = p.levelsOf(t.Peer)
	}
	event := p.body[:0].number(eventCategory, category(t.Kind))
	event = p.notes(event, task, &t).number(eventType, sliceBegin)
	shared := p.trace.Graph.Replicas() > 1 // replicas share the names of their tasks
	if shared {
		event = event.number(eventNameOf, 1+uint64(i))
	}
	event, counters := p.at(span.Start, event, track)
	if !shared {
		event = event.text(eventName, t.String())
	}
	for _, counter := range counters {
		event = event.number(eventCounters, counter)
	}
	for flow := range p.flows.from(i) {
		event = event.fixed(eventFlow, p.flows.number(flow, replica))
	}
	for flow := p.flows.to[i]; flow < p.flows.to[i+1]; flow++ {
		event = event.fixed(eventEndOfFlow, p.flows.number(flow, replica))
	}
	p.names = p.names[:0]
	if shared && replica == 0 {
		p.inner = p.inner[:0].number(internedNumber, 1+uint64(i)).text(internedName, t.String())
		p.names = p.names.nested(namesOfEvents, p.inner)
	}
	p.event(span.Start, event)
	p.names = p.names[:0]
	event, counters = p.at(span.End, event[:0].number(eventType, sliceEnd), track)
	for _, counter := range counters {
		event = event.number(eventCounters, counter)
	}
	p.event(span.End, event)
	p.body = event
}

// The categories of slices, which a viewer can show or hide together.
const (
	computing = 1 + iota
	communicating
	updating
)

func category(k graph.Kind) uint64 {
	switch {
	case k.Compute():
		return computing
	case k.Communication():
		return communicating
	}
	return updating
}

// The names of the arguments of slices.
const (
	kindNote = 1 + iota
	rankNote
	stageNote
	microbatchNote
	peerNote
	bytesNote
	readyNote
)

// notes appends the arguments of a slice.
func (p *perfetto) notes(event message, task placed, t *graph.Task) message {
	p.inner = p.inner[:0].number(noteName, kindNote).number(noteText, 1+uint64(t.Kind))
	event = event.nested(eventNotes, p.inner).note(rankNote, uint64(t.Rank))
	if t.Stage != graph.None {
		event = event.note(stageNote, uint64(t.Stage))
	}
	if t.Microbatch != graph.None {
		event = event.note(microbatchNote, uint64(t.Microbatch))
	}
	if t.Peer != graph.None {
		event = event.note(peerNote, uint64(t.Peer))
	}
	if t.Bytes != 0 {
		event = event.note(bytesNote, uint64(t.Bytes))
	}
	if p.trace.KnowsReady() {
		if ready := p.trace.ReadyAt(task.task); ready != task.Start { // it waited
			event = event.note(readyNote, uint64(ready))
		}
	}
	return event
}

// intern writes the names to which events refer by number, in every list from 1.
func (p *perfetto) intern() {
	var names message
	list := func(field protowire.Number, words ...string) {
		for i, word := range words {
			one := message(nil).number(internedNumber, uint64(1+i)).text(internedName, word)
			names = names.nested(field, one)
		}
	}
	list(namesOfCategories, "compute", "communication", "optimizer")
	list(namesOfNotes, "kind", "rank", "stage", "microbatch", "peer", "bytes", "ready_ns")
	var kinds []string
	for k := range graph.ReceiveForward {
		kinds = append(kinds, k.String())
	}
	list(namesOfTexts, kinds...)
	p.packet(message(nil).number(packetSequence, sequence).nested(packetNames, names).
		number(packetFlags, namesReset|namesUsed))
}
