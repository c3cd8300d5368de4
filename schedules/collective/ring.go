package collective

import (
	"fmt"
	"slices"
	"strings"

	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

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
		b.steps(p)
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

// steps adds the steps of one phase.
func (b *ringBuilder) steps(p phase) {
	for i := range p.steps(b.ranks) {
		arrived := slices.Clone(b.arrived)
		for r := range b.ranks {
			chunk, ok := p.chunk(b.convention, b.ranks, r, i)
			if !ok {
				continue
			}
			to := mod(r+b.convention.Direction, b.ranks)
			bytes := b.chunks[chunk] * b.element
			sent := b.graph.Add(graph.Task{
				Kind: graph.Send, Part: uint16(chunk), Rank: int32(r), Stream: int32(2 * r),
				Stage: graph.None, Microbatch: graph.None, Peer: int32(to), Bytes: bytes,
			}, b.arrived[r])
			arrived[to] = b.graph.Add(graph.Task{
				Kind: p.arrival, Part: uint16(chunk), Rank: int32(to), Stream: int32(2*to + 1),
				Stage: graph.None, Microbatch: graph.None, Peer: graph.None, Bytes: bytes,
			}, sent)
		}
		b.arrived = arrived
	}
}

func mod(a, n int) int { return ((a % n) + n) % n }
