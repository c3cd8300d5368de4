package collective

import "psim/schedules/graph"

// The collectives in which all ranks send all the time.
const (
	RingAllReduce     = "ring-allreduce"
	RingReduceScatter = "ring-reduce-scatter"
	RingAllGather     = "ring-allgather"
)

func ringAllReduce() Collective {
	return Collective{
		Name: RingAllReduce, Summary: "reduce-scatter, then all-gather: every rank ends with the sum",
		Steps: "2(N-1)", Sent: "2(N-1)/N*S", phases: []phase{reduceScatter(), allGather()},
	}
}

func ringReduceScatter() Collective {
	return Collective{
		Name: RingReduceScatter, Summary: "rank by rank sums around the ring: each rank ends with one chunk of the sum",
		Steps: "N-1", Sent: "(N-1)/N*S", phases: []phase{reduceScatter()},
	}
}

func ringAllGather() Collective {
	return Collective{
		Name: RingAllGather, Summary: "every rank's chunk travels around the ring to all others",
		Steps: "N-1", Sent: "(N-1)/N*S", phases: []phase{allGather()},
	}
}

func reduceScatter() phase {
	return round(graph.Reduce, func(c Convention) int { return c.Reduce })
}

func allGather() phase { return round(graph.Copy, func(c Convention) int { return c.Gather }) }

// round makes a phase of N − 1 steps in which every rank sends, first a chunk that is
// first after its own, and then what has just arrived.
func round(arrival graph.Kind, first func(Convention) int) phase {
	return phase{
		arrival: arrival,
		steps:   func(ranks int) int { return ranks - 1 },
		sends:   func(ranks int) float64 { return float64(ranks) * float64(ranks-1) },
		chunk: func(c Convention, ranks, rank, step int) (int, bool) {
			return mod(rank+first(c)-step*c.Direction, ranks), true
		},
	}
}
