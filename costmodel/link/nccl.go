package link

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// A Version is a release of NCCL as its own version code has it: 22304 is 2.23.4.
type Version int

// UnmarshalText reads "2.23" or "2.23.4"; on an error it leaves v as it was.
func (v *Version) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ".")
	code, scale := 0, 10_000
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 7)
		if err != nil || n > 99 || len(parts) < 2 || len(parts) > 3 {
			return fmt.Errorf(`%q must be a version of NCCL such as "2.23" or "2.23.4"`, text)
		}
		code, scale = code+int(n)*scale, scale/100
	}
	*v = Version(code)
	return nil
}

// UnmarshalTOML reads a string. A number is refused, as 2.30 would be 2.3.
func (v *Version) UnmarshalTOML(value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf(`%v must be a string; write for example nccl = "2.29"`, value)
	}
	return v.UnmarshalText([]byte(text))
}

// MarshalText writes what UnmarshalText reads.
func (v Version) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// String writes 22304 as 2.23.4, and 22300 as 2.23.
func (v Version) String() string {
	text := fmt.Sprintf("%d.%d", int(v)/10_000, int(v)/100%100)
	if v%100 > 0 {
		text += fmt.Sprintf(".%d", int(v)%100)
	}
	return text
}

// Limits of NCCL's algorithms, from NVIDIA/nccl (read 2026-11): the share of a ring's rate that PAT is
// credited with (src/graph/tuning.cc), and the most ranks that NVLS gathers and scatters among
// (NCCL_MAX_NVLS_ARITY).
const (
	patShare    = 0.75
	nvlsGathers = 32
)

// since lists the releases that brought an algorithm (notes of the releases and src/graph/tuning.cc of
// their tags): for all-reduces, and for all-gathers and reduce-scatters; 0 if there is none.
var since = map[string][2]Version{
	TreeAlgorithm:     {2_04_00, 0},
	SHARPAlgorithm:    {2_06_00, 0},
	NVLSAlgorithm:     {2_17_00, 2_19_00},
	NVLSTreeAlgorithm: {2_18_00, 0},
	PATAlgorithm:      {0, 2_23_00},
}

// has reports whether the library of the link may choose an algorithm for a kind of collective. A
// library without a version has rings and trees.
func (l Link) has(algorithm string, k graph.Kind) bool {
	if l.NCCL == 0 {
		return algorithm == TreeAlgorithm && k == graph.AllReduce
	}
	from := since[algorithm][1]
	if k == graph.AllReduce {
		from = since[algorithm][0]
	}
	return from > 0 && l.NCCL >= from
}

// Same reports whether two releases have the same algorithms.
func (v Version) Same(other Version) bool {
	a, b := Link{NCCL: v}, Link{NCCL: other}
	for algorithm := range since {
		for _, k := range []graph.Kind{graph.AllReduce, graph.AllGather} {
			if a.has(algorithm, k) != b.has(algorithm, k) {
				return false
			}
		}
	}
	return true
}

// adds reports whether all-reduces over ranks behind one switch may be added up by the switch. Then
// half of one is not a gather.
func (l Link) adds() bool {
	return l.NVLS > 0 && l.Algorithm == Auto && l.has(NVLSAlgorithm, graph.AllReduce)
}

// nvlsTime prices collectives by a switch that adds up and repeats (NVLink SHARP). A rank reads its
// n-th part of the sum, for which the switch reads that part of every rank, and writes it once to
// all: every link carries the tensor and one part of it in each direction. A gather and a scatter do
// one of both: the tensor and no part. These are two steps and one, whatever the number of ranks.
func (l Link) nvlsTime(k graph.Kind, n int, bytes int64) time.Duration {
	return units.Sum(time.Duration(l.Call), units.Repeat(Moves(k), time.Duration(l.Latency)),
		units.Seconds(switched(k, n, bytes)/float64(l.NVLS)))
}

// switched returns the bytes that a link to a switch carries, which adds up and repeats.
func switched(k graph.Kind, n int, bytes int64) float64 {
	if k == graph.AllReduce {
		return float64(bytes) * (1 + 1/float64(n))
	}
	return float64(bytes)
}

// nvlsTreeTime prices an all-reduce inside nodes by their switches, and between nodes through two
// trees as treeTime does. The slower of the two levels bounds the flow.
func (l Link) nvlsTreeTime(bytes int64) time.Duration {
	v := l.levels
	flow := max(treeBytes(v.nodes, bytes)/v.across.BusBandwidth(),
		switched(graph.AllReduce, v.perNode, bytes)/float64(v.within.NVLS))
	return units.Sum(time.Duration(l.Call), units.Repeat(2*log2(v.nodes), time.Duration(v.across.Latency)),
		units.Repeat(2, time.Duration(v.within.Latency)), units.Seconds(flow))
}

// patTime prices a gather or scatter among ranks that have a node each, through parallel aggregated
// trees: ⌈log₂ n⌉ steps and the bytes of a ring, and what each rank adds.
func (l Link) patTime(n int, bytes int64) time.Duration {
	moved := float64(n-1) / float64(n) * float64(bytes)
	return units.Sum(time.Duration(l.Call), units.Repeat(log2(n), time.Duration(l.Latency)),
		units.Repeat(n, time.Duration(l.PATRank)), units.Seconds(moved/(patShare*l.BusBandwidth())))
}

// sharpTime prices an all-reduce that the switches of the network add up: every node sends the tensor
// once and gets it once, in one step up and one down. Inside a node the tensor is scattered before
// and gathered after, by a switch of the node if that adds up.
func (l Link) sharpTime(bytes int64) time.Duration {
	start := units.Sum(time.Duration(l.Call), units.Repeat(2, time.Duration(l.Latency)))
	v := l.levels
	if v == nil {
		return units.Sum(start, units.Seconds(float64(bytes)/l.BusBandwidth()))
	}
	ring := 2 * float64(v.perNode-1) / float64(v.perNode) * float64(bytes) / v.within.BusBandwidth()
	if v.within.NVLS > 0 && l.has(NVLSTreeAlgorithm, graph.AllReduce) {
		ring = math.Min(ring, switched(graph.AllReduce, v.perNode, bytes)/float64(v.within.NVLS))
	}
	flow := math.Max(float64(bytes)/v.across.BusBandwidth(), ring)
	return units.Sum(start, units.Repeat(2, time.Duration(v.within.Latency)), units.Seconds(flow))
}
