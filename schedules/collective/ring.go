// Package collective spells ring collectives out as task graphs, chunk by chunk. A
// collective is a row of [Collectives]; graphs ([Ring.Graph]), lists, error messages
// and estimates of size follow from it.
package collective

import (
	"fmt"
	"strings"

	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// The ring collectives.
const (
	RingAllReduce     = "ring-allreduce"
	RingReduceScatter = "ring-reduce-scatter"
	RingAllGather     = "ring-allgather"
)

// A Collective is one row of the table of collectives that can be spelled out.
// Graphs, lists, error messages and estimates of size follow from the row, and so
// do the tests of its formulas.
type Collective struct {
	Name, Summary string
	// Steps, and the bytes that a rank sends, are formulas in N ranks and S bytes.
	Steps, Sent string

	phases []phase
}

// Collectives lists the ring collectives.
func Collectives() []Collective {
	return []Collective{
		{RingAllReduce, "reduce-scatter, then all-gather: every rank ends with the sum", "2(N-1)", "2(N-1)/N*S", []phase{reduceScatter, allGather}},
		{RingReduceScatter, "rank by rank sums around the ring: each rank ends with one chunk of the sum", "N-1", "(N-1)/N*S", []phase{reduceScatter}},
		{RingAllGather, "every rank's chunk travels around the ring to all others", "N-1", "(N-1)/N*S", []phase{allGather}},
	}
}

// A phase is N − 1 steps, in each of which every rank sends a chunk to its
// neighbour and takes one in.
type phase struct {
	arrival graph.Kind                 // what is done with a chunk that arrives
	first   func(c Convention) (r int) // the chunk that rank 0 sends first; rank r sends the r-th after it
}

var (
	reduceScatter = phase{graph.Reduce, func(c Convention) int { return c.Reduce }}
	allGather     = phase{graph.Copy, func(c Convention) int { return c.Gather }}
)

// Names lists the names of the collectives.
func Names() []string {
	var names []string
	for _, c := range Collectives() {
		names = append(names, c.Name)
	}
	return names
}

// Find returns the collective of that name.
func Find(name string) (Collective, error) {
	for _, c := range Collectives() {
		if c.Name == name {
			return c, nil
		}
	}
	return Collective{}, fmt.Errorf("unknown collective %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Tasks is the number of tasks of the collective over so many ranks.
func (c Collective) Tasks(ranks int) float64 {
	const ends = 2 // a send, and what is done on arrival
	return ends * float64(len(c.phases)) * float64(ranks) * float64(max(0, ranks-1))
}

// A Convention says which chunk a rank sends at which step. The published
// implementations differ in direction and in which rank ends up owning which
// chunk, and so in the order in which floating-point numbers are added.
type Convention struct {
	Name      string
	Direction int // a rank sends to rank + Direction
	// At step i of the reduce-scatter rank r sends chunk r + Reduce − i·Direction,
	// and at step i of the all-gather chunk r + Gather − i·Direction, modulo N.
	Reduce, Gather int
}

// Conventions lists NCCL's and MPICH's ring, Gloo's and Baidu's.
func Conventions() []Convention {
	return []Convention{
		{Name: "nccl", Direction: 1, Reduce: -1, Gather: 0},
		{Name: "gloo", Direction: -1, Reduce: 1, Gather: 0},
		{Name: "baidu", Direction: 1, Reduce: 0, Gather: 1},
	}
}

func conventionNames() []string {
	var names []string
	for _, c := range Conventions() {
		names = append(names, c.Name)
	}
	return names
}

// Owner is the rank that holds the whole sum of a chunk after the
// reduce-scatter, and contributes it to the all-gather.
func (c Convention) Owner(chunk, ranks int) int { return mod(chunk-c.Gather, ranks) }

// Options is the [collective] section: a collective by itself.
type Options struct {
	Bytes      units.Bytes `toml:"bytes"`
	Ranks      int         `toml:"ranks"`
	Convention string      `toml:"convention"`
}

// Settings describes [collective].
func (Options) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "bytes", Required: true, Example: `"20GB"`, Range: setting.Positive(), Text: "of the whole tensor"},
		{Key: "ranks", Required: true, Example: "8", Range: setting.Count(), Text: "of the ring"},
		{Key: "convention", Default: "nccl", OneOf: conventionNames(), Text: "which chunk goes first"},
	}
}

// A Ring is a collective spelled out chunk by chunk (Patarasuk & Yuan 2009).
type Ring struct {
	Collective string // the name of a Collective
	Ranks      int    // 1 or more
	Length     int64  // elements of the whole tensor
	Element    int64  // bytes of one; 0 means 1
	Convention string // nccl, gloo or baidu; empty means nccl
}

// RingChunks splits a length over the ranks: the first length mod ranks
// chunks are one element longer. Chunks may be empty.
func RingChunks(length int64, ranks int) []int64 {
	chunks := make([]int64, ranks)
	for c := range chunks {
		chunks[c] = length / int64(ranks)
		if int64(c) < length%int64(ranks) {
			chunks[c]++
		}
	}
	return chunks
}

// Graph spells the collective out. Every step of every rank is one Send to a
// neighbour, and on that neighbour one Reduce or Copy of what arrived, which
// its next Send waits for. One rank alone has nothing to do.
func (r Ring) Graph() (*graph.Graph, error) {
	row, err := Find(r.Collective)
	if err != nil {
		return nil, err
	}
	c, err := r.validate()
	if err != nil {
		return nil, err
	}
	b := &ringBuilder{
		graph:      &graph.Graph{Name: r.Collective, Shape: graph.Shape{Ranks: r.Ranks, Virtual: 1, Microbatches: 1, Replicas: 1}},
		convention: c, ranks: r.Ranks, chunks: RingChunks(r.Length, r.Ranks), element: max(1, r.Element),
	}
	if r.Ranks > 1 {
		b.streams()
	}
	for _, p := range row.phases {
		b.steps(p.arrival, p.first(c))
	}
	return b.graph, nil
}

// validate returns the convention or says what is wrong.
func (r Ring) validate() (Convention, error) {
	switch {
	case r.Ranks < 1:
		return Convention{}, fmt.Errorf("ranks = %d: there must be at least 1", r.Ranks)
	case r.Ranks > 1<<14:
		return Convention{}, fmt.Errorf("ranks = %d: a ring of more than %d ranks would have more than %d tasks", r.Ranks, 1<<14, graph.MaxTasks/2)
	case r.Length < 0 || r.Element < 0:
		return Convention{}, fmt.Errorf("the tensor has %d elements of %d bytes: neither may be negative", r.Length, r.Element)
	}
	for _, c := range Conventions() {
		if c.Name == r.Convention || r.Convention == "" {
			return c, nil
		}
	}
	return Convention{}, fmt.Errorf("unknown convention %q; use one of %s", r.Convention, strings.Join(conventionNames(), ", "))
}

// ringBuilder holds the state of one Graph call.
type ringBuilder struct {
	graph      *graph.Graph
	convention Convention
	ranks      int
	chunks     []int64 // elements
	element    int64   // bytes
	arrived    []int32 // by rank, the task that took in the last chunk
}

// streams makes one stream per rank for sending and one for reducing: the
// streams of rank r are 2r and 2r+1.
func (b *ringBuilder) streams() {
	b.arrived = make([]int32, b.ranks)
	for r := range b.ranks {
		b.graph.AddStream(int32(r), fmt.Sprintf("send to %d", mod(r+b.convention.Direction, b.ranks)))
		b.graph.AddStream(int32(r), "reduce")
		b.arrived[r] = graph.None
	}
}

// steps adds the N − 1 steps of one phase, in which rank r first sends chunk
// r + first.
func (b *ringBuilder) steps(arrival graph.Kind, first int) {
	for i := range b.ranks - 1 {
		arrived := make([]int32, b.ranks)
		for r := range b.ranks {
			chunk := mod(r+first-i*b.convention.Direction, b.ranks)
			to := mod(r+b.convention.Direction, b.ranks)
			bytes := b.chunks[chunk] * b.element
			sent := b.graph.Add(graph.Task{
				Kind: graph.Send, Part: uint16(chunk), Rank: int32(r), Stream: int32(2 * r),
				Stage: graph.None, Microbatch: graph.None, Peer: int32(to), Bytes: bytes,
			}, b.arrived[r])
			arrived[to] = b.graph.Add(graph.Task{
				Kind: arrival, Part: uint16(chunk), Rank: int32(to), Stream: int32(2*to + 1),
				Stage: graph.None, Microbatch: graph.None, Peer: graph.None, Bytes: bytes,
			}, sent)
		}
		b.arrived = arrived
	}
}

func mod(a, n int) int { return ((a % n) + n) % n }
