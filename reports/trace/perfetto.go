package trace

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"psim/results/tracecsv"
	"psim/schedules/graph"
)

// WritePerfetto writes a trace in Perfetto's own format, protobuf: a process per
// replica, with a thread per rank and stream, a counter of every rank's memory, and
// flows from messages to the tasks that waited for them.
func WritePerfetto(w io.Writer, t *graph.Trace) error {
	p := &perfetto{out: bufio.NewWriter(w), trace: t}
	p.tracks()
	p.slices()
	p.memory()
	return p.out.Flush()
}

// The fields and values of Perfetto's messages that are used here, as in
// testdata/perfetto.proto.
const (
	tracePacket = 1

	packetTime     = 8
	packetSequence = 10
	packetEvent    = 11
	packetTrack    = 60

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

	eventNotes     = 4
	eventType      = 9
	eventTrack     = 11
	eventCategory  = 22
	eventName      = 23
	eventValue     = 30
	eventFlow      = 47
	eventEndOfFlow = 48
	sliceBegin     = 1 // TYPE_SLICE_BEGIN
	sliceEnd       = 2 // TYPE_SLICE_END
	counterValue   = 4 // TYPE_COUNTER

	noteInteger = 4
	noteText    = 6
	noteName    = 10
)

// sequence is the number of the only sequence of packets.
const sequence = 1

type perfetto struct {
	out   *bufio.Writer
	trace *graph.Trace
	track []uint64    // of every stream
	last  uint64      // the highest number of a track
	to    [][2]uint64 // by task: the flows that end there, as the first and the one after the last
	from  [][]uint64  // by task: the flows that begin there
}

// message holds the fields of a protobuf message.
type message []byte

func (m message) number(field protowire.Number, n uint64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), n)
}

func (m message) fixed(field protowire.Number, n uint64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), n)
}

func (m message) text(field protowire.Number, text string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), text)
}

func (m message) nested(field protowire.Number, inner message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), inner)
}

// packet writes one packet. The first error stays with the writer.
func (p *perfetto) packet(m message) { p.out.Write(message(nil).nested(tracePacket, m)) }

// describe writes the description of a track.
func (p *perfetto) describe(track message) {
	p.packet(message(nil).number(packetSequence, sequence).nested(packetTrack, track))
}

func (p *perfetto) event(at time.Duration, event message) {
	p.packet(message(nil).number(packetTime, uint64(at)).number(packetSequence, sequence).nested(packetEvent, event))
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
	p.track = make([]uint64, len(g.Streams))
	for s, stream := range g.Streams {
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

// slices writes the tasks, by stream and start. The slices of a thread may not overlap, so
// that overlapping tasks of a stream are written as several threads.
func (p *perfetto) slices() {
	p.flows()
	start, order := p.trace.Graph.ByStream()
	for s, stream := range p.trace.Graph.Streams {
		tasks := order[start[s]:start[s+1]]
		byStart(p.trace, tasks)
		tracks := []uint64{p.track[s]}
		for k, lane := range separate(p.trace, tasks) {
			if lane == len(tracks) {
				tracks = append(tracks, p.thread(stream, " (overlapping)"))
			}
			p.slice(tasks[k], tracks[lane])
		}
	}
}

// flows numbers the arrows from messages to the tasks that waited for them. Arrows that end
// at the same task have consecutive numbers.
func (p *perfetto) flows() {
	n := p.trace.Graph.Len()
	p.to, p.from = make([][2]uint64, n), make([][]uint64, n)
	id := uint64(1)
	for source, task := range waits(p.trace) {
		if p.to[task][0] == 0 {
			p.to[task][0] = id
		}
		p.from[source] = append(p.from[source], id)
		id++
		p.to[task][1] = id
	}
}

func (p *perfetto) slice(i int32, track uint64) {
	t, span := p.trace.Graph.Task(i), p.trace.Span(i)
	event := p.notes(i, &t).number(eventType, sliceBegin).number(eventTrack, track).
		text(eventCategory, category(t.Kind)).text(eventName, t.String())
	for _, flow := range p.from[i] {
		event = event.fixed(eventFlow, flow)
	}
	for flow := p.to[i][0]; flow < p.to[i][1]; flow++ {
		event = event.fixed(eventEndOfFlow, flow)
	}
	p.event(span.Start, event)
	p.event(span.End, message(nil).number(eventType, sliceEnd).number(eventTrack, track))
}

// category names the slices that a viewer can show or hide together.
func category(k graph.Kind) string {
	switch {
	case k.Compute():
		return "compute"
	case k.Communication():
		return "communication"
	}
	return "optimizer"
}

// notes lists the arguments of a slice.
func (p *perfetto) notes(i int32, t *graph.Task) (event message) {
	event = event.nested(eventNotes, message(nil).text(noteText, t.Kind.String()).text(noteName, "kind"))
	number := func(name string, n int64) {
		event = event.nested(eventNotes, message(nil).number(noteInteger, uint64(n)).text(noteName, name))
	}
	number("rank", int64(t.Rank))
	for name, n := range fields(t) {
		number(name, n)
	}
	if p.trace.KnowsReady() {
		number("ready_ns", p.trace.ReadyAt(i).Nanoseconds())
	}
	return event
}

// memory writes the memory in use as a counter of every rank that uses memory.
func (p *perfetto) memory() {
	for _, curve := range tracecsv.MemoryCurves(p.trace) {
		if curve.Peak() == 0 {
			continue
		}
		p.last++
		counter := message(nil).number(counterUnit, unitBytes)
		p.describe(message(nil).number(trackID, p.last).text(trackName, fmt.Sprintf("rank %d memory", curve.Rank)).
			number(trackParent, p.process(int32(curve.Rank))).nested(trackCounter, counter).number(trackRank, p.last))
		for _, point := range curve.Levels() {
			p.event(point.At, message(nil).number(eventType, counterValue).
				number(eventTrack, p.last).number(eventValue, uint64(point.Bytes)))
		}
	}
}
