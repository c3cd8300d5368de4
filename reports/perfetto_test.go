package reports_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"psim/internal/golden"
	"psim/reports/trace"
	"psim/results/tracecsv"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// A field of a protobuf message is of a type: one that is built in, an enum, or
// another message.
type protoField struct{ label, kind, name string }

// A schema holds the messages and enums of a .proto file, by name and number.
type protoSchema struct {
	messages map[string]map[protowire.Number]protoField
	enums    map[string]map[uint64]string
}

// perfettoSchema reads the subset of the language that testdata/perfetto.proto uses.
func perfettoSchema(t *testing.T) protoSchema {
	text, err := os.ReadFile("testdata/perfetto.proto")
	require.NoError(t, err)
	s := protoSchema{map[string]map[protowire.Number]protoField{}, map[string]map[uint64]string{}}
	block := regexp.MustCompile(`(?s)(message|enum) (\w+) \{(.*?)\}`)
	field := regexp.MustCompile(`(?:(optional|repeated) (\w+) )?(\w+) = (\d+);`)
	for _, b := range block.FindAllStringSubmatch(string(text), -1) {
		fields, values := map[protowire.Number]protoField{}, map[uint64]string{}
		for _, f := range field.FindAllStringSubmatch(b[3], -1) {
			n, err := strconv.Atoi(f[4])
			require.NoError(t, err)
			fields[protowire.Number(n)], values[uint64(n)] = protoField{f[1], f[2], f[3]}, f[3]
		}
		if b[1] == "message" {
			s.messages[b[2]] = fields
		} else {
			s.enums[b[2]] = values
		}
	}
	require.Len(t, s.messages, 15)
	return s
}

// decode writes a message as protoc --decode does, and refuses what the schema does
// not have, a field twice that is not repeated, and fields out of order.
func (s protoSchema) decode(t *testing.T, out *strings.Builder, name string, data []byte, indent string) {
	last := protowire.Number(0)
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		require.GreaterOrEqual(t, n, 0, "%s: a tag is broken", name)
		data = data[n:]
		f, ok := s.messages[name][number]
		require.True(t, ok, "%s has no field %d", name, number)
		require.True(t, number > last || number == last && f.label == "repeated", "%s.%s is out of order", name, f.name)
		last = number
		if s.messages[f.kind] == nil {
			value, n := s.scalar(t, f, wire, data)
			fmt.Fprintf(out, "%s%s: %s\n", indent, f.name, value)
			data = data[n:]
			continue
		}
		require.Equal(t, protowire.BytesType, wire)
		inner, n := protowire.ConsumeBytes(data)
		require.GreaterOrEqual(t, n, 0)
		fmt.Fprintf(out, "%s%s {\n", indent, f.name)
		s.decode(t, out, f.kind, inner, indent+"  ")
		fmt.Fprintf(out, "%s}\n", indent)
		data = data[n:]
	}
}

func (s protoSchema) scalar(t *testing.T, f protoField, wire protowire.Type, data []byte) (text string, n int) {
	switch f.kind {
	case "string":
		require.Equal(t, protowire.BytesType, wire)
		value, n := protowire.ConsumeString(data)
		require.GreaterOrEqual(t, n, 0)
		require.Regexp(t, `^[ -~]*$`, value, "protoc writes other characters as octal numbers")
		return strconv.Quote(value), n
	case "fixed64":
		require.Equal(t, protowire.Fixed64Type, wire)
		value, n := protowire.ConsumeFixed64(data)
		require.GreaterOrEqual(t, n, 0)
		return fmt.Sprint(value), n
	}
	require.Equal(t, protowire.VarintType, wire)
	value, n := protowire.ConsumeVarint(data)
	require.GreaterOrEqual(t, n, 0)
	switch f.kind {
	case "int32":
		return fmt.Sprint(int32(value)), n
	case "int64":
		return fmt.Sprint(int64(value)), n
	case "uint32", "uint64":
		return fmt.Sprint(value), n
	}
	require.NotEmpty(t, s.enums[f.kind][value], "%s has no value %d", f.kind, value)
	return s.enums[f.kind][value], n
}

// perfettoText returns a trace as it is written, and decoded.
func perfettoText(t *testing.T, traced *graph.Trace) (data []byte, text string) {
	var b bytes.Buffer
	require.NoError(t, trace.WritePerfetto(&b, traced))
	var out strings.Builder
	perfettoSchema(t).decode(t, &out, "Trace", b.Bytes(), "")
	return b.Bytes(), out.String()
}

// replicas is a trace of two replicas with messages and memory.
func replicas(t *testing.T) *graph.Trace {
	c := unit()
	c.send = 2*ms + 345
	trace := run(t, "1f1b", 2, 2, c)
	trace.Graph.Shape.Ranks, trace.Graph.Shape.Replicas = 1, 2
	return trace
}

func TestPerfetto(t *testing.T) {
	_, text := perfettoText(t, replicas(t))
	golden.Equal(t, "perfetto.txt", []byte(text))
}

// Perfetto's own compiler reads the same as the test's decoder.
func TestPerfettoByProtoc(t *testing.T) {
	protoc, err := exec.LookPath("protoc")
	if err != nil {
		t.Skip("protoc is not installed")
	}
	data, want := perfettoText(t, replicas(t))
	cmd := exec.Command(protoc, "--decode", "psim.Trace", "--proto_path", "testdata", "perfetto.proto")
	cmd.Stdin = bytes.NewReader(data)
	got, err := cmd.CombinedOutput()
	require.NoError(t, err, string(got))
	require.Equal(t, want, string(got))
}

// Viewers need that a track is described once and before its events, that its slices
// end before the next begins, that names are known and those of the tasks, that flows have two ends in order, and that no thread
// passes for the main thread of its process. Events that name no track are on the one of the
// last defaults of their sequence, and levels without counters are of the counter of these.
func TestPerfettoLaws(t *testing.T) {
	c := unit()
	c.send = 2 * ms
	for _, trace := range []*graph.Trace{
		replicas(t), run(t, "1f1b", 4, 8, c), run(t, "gpipe", 4, 8, unit()), ddp(t), ring(t, 4), overlapping(t), folded(t),
	} {
		_, text := perfettoText(t, trace)
		value := func(packet, field string) (n int) {
			if m := regexp.MustCompile(`(?m)^ +` + field + `: (\d+)$`).FindStringSubmatch(packet); m != nil {
				n, _ = strconv.Atoi(m[1])
			}
			return n
		}
		described, begun, now, flows := map[int]bool{}, map[int]bool{}, map[int]int{}, map[string]int{}
		known, names := map[string]string{}, map[string]int{}
		slices, assumed, counter := 0, 0, 0
		counters, levels := map[string]int{}, map[int]map[int]int{}
		level := func(counter, at, bytes int) {
			require.Contains(t, levels, counter)
			require.NotContains(t, levels[counter], at, "a level is written once")
			levels[counter][at] = bytes
		}
		for _, packet := range strings.Split(text, "packet {\n")[1:] {
			for _, m := range regexp.MustCompile(`event_names \{\n +iid: (\d+)\n +name: "(.*)"`).FindAllStringSubmatch(packet, -1) {
				require.NotContains(t, known, m[1])
				known[m[1]] = m[2]
			}
			if strings.Contains(packet, "event_categories") {
				continue
			}
			if strings.Contains(packet, "trace_packet_defaults") {
				assumed, counter = value(packet, "track_uuid"), value(packet, "extra_counter_track_uuids")
				continue
			}
			if id := value(packet, "uuid"); id != 0 {
				require.False(t, described[id])
				described[id] = true
				require.True(t, value(packet, "parent_uuid") == 0 || described[value(packet, "parent_uuid")])
				require.True(t, value(packet, "tid") == 0 || value(packet, "tid") > max(1, trace.Graph.Shape.Replicas))
				if m := regexp.MustCompile(`name: "(.* memory)"`).FindStringSubmatch(packet); m != nil {
					counters[m[1]], levels[id] = id, map[int]int{}
				}
				continue
			}
			track, at := cmp.Or(value(packet, "track_uuid"), assumed), value(packet, "timestamp")
			require.True(t, described[track])
			if strings.Contains(packet, "TYPE_COUNTER") {
				level(track, at, value(packet, "counter_value"))
				continue
			}
			require.GreaterOrEqual(t, at, now[track])
			now[track] = at
			of, values := numbers(packet, "extra_counter_track_uuids"), numbers(packet, "extra_counter_values")
			if of == nil {
				of = []int{counter}
			}
			require.LessOrEqual(t, len(values), len(of))
			for i, bytes := range values {
				level(of[i], at, bytes)
			}
			require.Equal(t, begun[track], strings.Contains(packet, "TYPE_SLICE_END"))
			begun[track] = !begun[track]
			if begun[track] {
				name := regexp.MustCompile(`(?m)^    name(_iid)?: "?([^"\n]+)"?$`).FindStringSubmatch(packet)
				require.NotNil(t, name, packet)
				if name[1] != "" {
					require.Contains(t, known, name[2])
					name[2] = known[name[2]]
				}
				names[name[2]]++
			}
			for _, m := range regexp.MustCompile(`(flow_ids): (\d+)`).FindAllStringSubmatch(packet, -1) {
				flows[m[2]]++
			}
			slices++
		}
		require.Equal(t, 2*trace.Graph.Len()*trace.Graph.Replicas(), slices)
		for _, task := range trace.Graph.Tasks() {
			names[task.String()]--
		}
		for name, more := range names {
			require.Zero(t, more, name)
		}
		for id, ends := range flows {
			require.Equal(t, 2, ends, id)
		}
		requireLevels(t, trace, counters, levels)
	}
}

// folded is a trace in which one of three replicas stands for all.
func folded(t *testing.T) *graph.Trace {
	s, err := schedules.Find("1f1b")
	require.NoError(t, err)
	o, err := s.Order(graph.Shape{Ranks: 2, Microbatches: 4}, nil)
	require.NoError(t, err)
	traced := runPipeline(t, wiring.Pipeline{
		Name: "1f1b", Shape: graph.Shape{Ranks: 2, Microbatches: 4, Replicas: 3}, Order: o, Optimizer: true, Folded: true,
		Boundaries: []wiring.Boundary{{Forward: 1 << 20, Backward: 1 << 20}},
		Sync:       wiring.Sync{Buckets: [][]int64{{25e6}, {25e6}}, Overlap: true},
	}, times{f: 10 * ms, b: 20 * ms, send: 2 * ms, collective: 12 * ms, optimizer: 8 * ms, activation: 1e9, resident: 2e9})
	require.Equal(t, 3, traced.Graph.Replicas())
	return traced
}

// numbers lists the values of a field of a packet.
func numbers(packet, field string) (list []int) {
	for _, m := range regexp.MustCompile(`(?m)^ +`+field+`: (\d+)$`).FindAllStringSubmatch(packet, -1) {
		n, _ := strconv.Atoi(m[1])
		list = append(list, n)
	}
	return list
}

// requireLevels checks that counters have the memory of all ranks that use any.
func requireLevels(t *testing.T, trace *graph.Trace, counters map[string]int, levels map[int]map[int]int) {
	used := 0
	for curve := range tracecsv.EachCurve(trace) {
		if curve.Peak() == 0 {
			continue
		}
		used++
		want := map[int]int{}
		for _, p := range curve.Levels() {
			want[int(p.At)] = int(p.Bytes)
		}
		require.Equal(t, want, levels[counters[fmt.Sprintf("rank %d memory", curve.Rank)]])
	}
	require.Len(t, counters, used)
}

// What a task of a pipeline takes in the file.
func BenchmarkPerfetto(b *testing.B) {
	c := unit()
	c.send = 2*ms + 345
	traced := run(b, "1f1b", 16, 512, c)
	var bytes countingWriter
	b.ReportAllocs()
	for b.Loop() {
		bytes = 0
		require.NoError(b, trace.WritePerfetto(&bytes, traced))
	}
	b.ReportMetric(float64(bytes)/float64(traced.Graph.Len()), "bytes/task")
}

// A countingWriter counts bytes.
type countingWriter int

func (w *countingWriter) Write(data []byte) (int, error) {
	*w += countingWriter(len(data))
	return len(data), nil
}
