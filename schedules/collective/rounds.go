package collective

import "psim/schedules/graph"

// The collectives in which all ranks send all the time, around a ring.
const (
	RingAllReduce     = "ring-allreduce"
	RingReduceScatter = "ring-reduce-scatter"
	RingAllGather     = "ring-allgather"
)

func ringAllReduce() Collective {
	return rounds(Collective{
		Name: RingAllReduce, Summary: "reduce-scatter, then all-gather: every rank ends with the sum",
		Steps: "2(N-1)", Sent: "2(N-1)/N*S", Result: graph.AllReduce,
	}, reduceScatter(), allGather())
}

func ringReduceScatter() Collective {
	return rounds(Collective{
		Name: RingReduceScatter, Summary: "rank by rank sums around the ring: each rank ends with one chunk of the sum",
		Steps: "N-1", Sent: "(N-1)/N*S", Result: graph.ReduceScatter,
	}, reduceScatter())
}

func ringAllGather() Collective {
	return rounds(Collective{
		Name: RingAllGather, Summary: "every rank's chunk travels around the ring to all others",
		Steps: "N-1", Sent: "(N-1)/N*S", Result: graph.AllGather,
	}, allGather())
}

// A round is how often a chunk goes around: N − 1 steps in which every rank sends, first a
// chunk that is first after its own, and then what has just arrived.
type round struct {
	adds  bool
	first func(Convention) int
}

func reduceScatter() round { return round{true, func(c Convention) int { return c.Reduce }} }

func allGather() round { return round{false, func(c Convention) int { return c.Gather }} }

// rounds completes a collective of so many rounds.
func rounds(c Collective, list ...round) Collective {
	c.ring = true
	c.moves = func(ranks int) float64 { return float64(len(list)) * float64(ranks) * float64(ranks-1) }
	c.steps = func(c Convention, ranks int) (steps [][]Move) {
		for _, r := range list {
			for i := range ranks - 1 {
				var step []Move
				for rank := range ranks {
					chunk := mod(rank+r.first(c)-i*c.Direction, ranks)
					step = append(step, Move{From: rank, To: mod(rank+c.Direction, ranks), Chunk: chunk, Count: 1, Place: chunk, Adds: r.adds})
				}
				steps = append(steps, step)
			}
		}
		return steps
	}
	return c
}
