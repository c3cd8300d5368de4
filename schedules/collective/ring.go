package collective

import "psim/schedules/graph"

// The names of the ring collectives, in which all ranks send at every step.
const (
	RingAllReduce     = "ring-allreduce"
	RingReduceScatter = "ring-reduce-scatter"
	RingAllGather     = "ring-allgather"
)

func ringAllReduce() Collective {
	return ringOf(Collective{
		Name: RingAllReduce, Summary: "reduce-scatter, then all-gather: every rank ends with the sum",
		Steps: "2(N-1)", Sent: "2(N-1)/N*S", Result: graph.AllReduce,
	}, reduceScatter(), allGather())
}

func ringReduceScatter() Collective {
	return ringOf(Collective{
		Name: RingReduceScatter, Summary: "rank by rank sums around the ring: each rank ends with one chunk of the sum",
		Steps: "N-1", Sent: "(N-1)/N*S", Result: graph.ReduceScatter,
	}, reduceScatter())
}

func ringAllGather() Collective {
	return ringOf(Collective{
		Name: RingAllGather, Summary: "every rank's chunk travels around the ring to all others",
		Steps: "N-1", Sent: "(N-1)/N*S", Result: graph.AllGather,
	}, allGather())
}

// A round is one way around the ring: N − 1 steps in which every rank sends a chunk, and
// from the second step on the chunk that has just arrived.
type round struct {
	adds  bool
	first func(Convention) int // the first chunk that rank r sends, minus r
}

func reduceScatter() round { return round{true, func(c Convention) int { return c.Reduce }} }

func allGather() round { return round{false, func(c Convention) int { return c.Gather }} }

// ringOf completes a collective that consists of some rounds.
func ringOf(c Collective, list ...round) Collective {
	c.ring, c.Algorithm = true, "ring"
	c.moves = func(ranks int) float64 { return float64(len(list)) * float64(ranks) * float64(ranks-1) }
	c.steps = func(c Convention, ranks int) (steps [][]Move) {
		for _, r := range list {
			for i := range ranks - 1 {
				var step []Move
				for rank := range ranks {
					chunk := mod(rank+r.first(c)-i*c.Direction, ranks)
					step = append(step, Move{
						From: rank, To: mod(rank+c.Direction, ranks),
						Chunk: chunk, Count: 1, Place: chunk, Adds: r.adds,
					})
				}
				steps = append(steps, step)
			}
		}
		return steps
	}
	return c
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

// Conventions lists the conventions of NCCL and MPICH, of Gloo and of Baidu.
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

// Owner returns the rank that holds the whole sum of a chunk after the
// reduce-scatter, and contributes it to the all-gather.
func (c Convention) Owner(chunk, ranks int) int { return mod(chunk-c.Gather, ranks) }
