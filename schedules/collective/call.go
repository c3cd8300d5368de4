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
		{Key: "ranks", Required: true, Example: "8", Range: setting.Count(), Text: "of the collective"},
		{Key: "convention", Default: "nccl", OneOf: conventionNames(), Text: "of a ring: which chunk goes first"},
	}
}

// A Call is a collective over ranks and a tensor (rings: Patarasuk & Yuan 2009).
type Call struct {
	Collective string // the name of a Collective
	Ranks      int    // 1 or more
	Length     int64  // elements of the whole tensor
	Element    int64  // bytes of one; 0 means 1
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

// Graph spells the collective out. Every Move is one Send, and on its receiver one Reduce
// or Copy of what arrived, which its next Send waits for. One rank alone has nothing to do.
func (r Call) Graph() (*graph.Graph, error) {
	row, steps, err := r.moves()
	if err != nil {
		return nil, err
	}
	b := &builder{
		graph:  &graph.Graph{Name: r.Collective, Shape: graph.Shape{Ranks: r.Ranks, Virtual: 1, Microbatches: 1, Replicas: 1}},
		chunks: RingChunks(r.Length, row.Chunks(r.Ranks)), element: max(1, r.Element),
	}
	if r.Ranks > 1 {
		b.streams(row, steps, r.Ranks)
	}
	for _, step := range steps {
		b.step(step)
	}
	return b.graph, nil
}

// Moves lists those of all steps, in the order of the graph's tasks: the first two tasks
// are the two ends of the first move, and so on.
func (r Call) Moves() ([]Move, error) {
	_, steps, err := r.moves()
	return slices.Concat(steps...), err
}

// moves finds the row, and lists the moves by step.
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

// validate returns the convention or says what is wrong.
func (r Call) validate(row Collective) (Convention, error) {
	if err := row.Legal(r.Ranks); err != nil {
		return Convention{}, err
	}
	if r.Length < 0 || r.Element < 0 {
		return Convention{}, fmt.Errorf("the tensor has %d elements of %d bytes: neither may be negative", r.Length, r.Element)
	}
	for i, c := range Conventions() {
		if i > 0 && c.Name == r.Convention && !row.ring {
			return Convention{}, fmt.Errorf("convention = %q: %s is no ring; leave it out", r.Convention, row.Name)
		}
		if c.Name == r.Convention || r.Convention == "" {
			return c, nil
		}
	}
	return Convention{}, fmt.Errorf("unknown convention %q; use one of %s", r.Convention, strings.Join(conventionNames(), ", "))
}

// builder holds the state of one Graph call.
type builder struct {
	graph   *graph.Graph
	chunks  []int64 // elements
	element int64   // bytes
	arrived []int32 // by rank, the task that took in what came last
}

// streams makes one stream per rank for sending and one for taking in: the streams of
// rank r are 2r and 2r+1.
func (b *builder) streams(row Collective, steps [][]Move, ranks int) {
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

// step adds what is sent at one step.
func (b *builder) step(moves []Move) {
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
