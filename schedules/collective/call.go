package collective

import (
	"fmt"
	"slices"
	"strings"

	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// Options is the [collective] section: a collective on its own.
type Options struct {
	Bytes      units.Bytes `toml:"bytes"`
	Ranks      int         `toml:"ranks"`
	Convention string      `toml:"convention"`
}

// Settings describes [collective].
func (Options) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "bytes", Required: true, Example: `"20GB"`, Range: setting.Positive(), Text: "of the whole tensor"},
		{Key: "ranks", Required: true, Example: "8", Range: setting.Count(), Text: "of the collective"},
		{Key: "convention", Default: "nccl", OneOf: conventionNames(), Text: "of a ring: which chunk goes first"},
	}
}

// A Call is a collective with a number of ranks and a tensor (rings: Patarasuk & Yuan
// 2009).
type Call struct {
	Collective string // the name of a Collective
	Ranks      int    // 1 or more
	Length     int64  // elements of the whole tensor
	Element    int64  // bytes of an element; 0 means 1
	Convention string // of a ring: nccl, gloo or baidu; empty means nccl
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

// Graph spells the collective out. Every Move becomes a Send and, on its receiver, a
// Reduce or Copy, which the receiver's next Send waits for. The graph of one rank is
// empty.
func (r Call) Graph() (*graph.Graph, error) {
	row, steps, err := r.moves()
	if err != nil {
		return nil, err
	}
	b := &builder{
		graph: &graph.Graph{
			Name: r.Collective, Shape: graph.Shape{Ranks: r.Ranks, Virtual: 1, Microbatches: 1, Replicas: 1},
		},
		chunks: RingChunks(r.Length, row.Chunks(r.Ranks)), element: max(1, r.Element),
	}
	if r.Ranks > 1 {
		b.addStreams(row, steps, r.Ranks)
	}
	for _, step := range steps {
		b.addStep(step)
	}
	return b.graph, nil
}

// Moves lists the moves of all steps in the order of the graph's tasks: the first two
// tasks are the two ends of the first move, and so on.
func (r Call) Moves() ([]Move, error) {
	_, steps, err := r.moves()
	return slices.Concat(steps...), err
}

// moves returns the row of the collective, and its moves by step.
func (r Call) moves() (Collective, [][]Move, error) {
	row, err := Find(r.Collective)
	if err != nil {
		return row, nil, err
	}
	c, err := r.validate(row)
	if err != nil || r.Ranks == 1 {
		return row, nil, err
	}
	return row, row.steps(c, r.Ranks), nil
}

// validate returns the convention of the call, or an error if the call is illegal.
func (r Call) validate(row Collective) (Convention, error) {
	if err := row.Legal(r.Ranks); err != nil {
		return Convention{}, err
	}
	if r.Length < 0 || r.Element < 0 {
		return Convention{}, fmt.Errorf("the tensor has %d elements of %d bytes: neither may be negative",
			r.Length, r.Element)
	}
	for i, c := range Conventions() {
		if i > 0 && c.Name == r.Convention && !row.ring {
			return c, fmt.Errorf("convention = %q: %s is not a ring; remove convention", r.Convention, row.Name)
		}
		if c.Name == r.Convention || r.Convention == "" {
			return c, nil
		}
	}
	known := strings.Join(conventionNames(), ", ")
	return Convention{}, fmt.Errorf("unknown convention %q; use one of %s", r.Convention, known)
}

// builder holds the state of one Graph call.
type builder struct {
	graph   *graph.Graph
	chunks  []int64 // elements
	element int64   // bytes
	arrived []int32 // by rank: the task of the last arrival
}

// addStreams adds two streams per rank, 2r for sending and 2r+1 for arrivals.
func (b *builder) addStreams(row Collective, steps [][]Move, ranks int) {
	to := make([]string, ranks)
	for r := range to {
		b.arrived, to[r] = append(b.arrived, graph.None), "send"
	}
	if row.ring {
		for _, m := range steps[0] {
			to[m.From] = fmt.Sprintf("send to %d", m.To)
		}
	}
	for r := range ranks {
		b.graph.AddStream(int32(r), to[r])
		b.graph.AddStream(int32(r), "reduce")
	}
}

// addStep adds the tasks of the moves of one step.
func (b *builder) addStep(moves []Move) {
	arrived := slices.Clone(b.arrived)
	for _, m := range moves {
		var bytes int64
		for _, n := range b.chunks[m.Chunk : m.Chunk+m.Count] {
			bytes += n * b.element
		}
		sent := b.graph.Add(graph.Task{
			Kind: graph.Send, Part: uint16(m.Chunk), Rank: int32(m.From), Stream: int32(2 * m.From),
			Stage: graph.None, Microbatch: graph.None, Peer: int32(m.To), Bytes: bytes,
		}, b.arrived[m.From])
		arrived[m.To] = b.graph.Add(graph.Task{
			Kind: m.arrival(), Part: uint16(m.Place), Rank: int32(m.To), Stream: int32(2*m.To + 1),
			Stage: graph.None, Microbatch: graph.None, Peer: graph.None, Bytes: bytes,
		}, sent)
	}
	b.arrived = arrived
}

func mod(a, n int) int { return ((a % n) + n) % n }
