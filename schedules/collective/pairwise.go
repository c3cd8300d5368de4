package collective

import (
	"fmt"
	"math/bits"
	"slices"

	"psim/schedules/graph"
)

// treeAllReduce sums up a binomial tree to rank 0 and broadcasts down the same tree
// (MPICH's reduce and broadcast of short messages; Thakur et al. 2005, sections 4.3 and
// 4.5).
func treeAllReduce() Collective {
	return Collective{
		Name: "tree-allreduce", Summary: "sums up a binomial tree to rank 0 and down again, the tensor whole",
		Steps: "at most 2⌈log2(N)⌉", Sent: "at most ⌈log2(N)⌉*S", Result: graph.AllReduce, whole: true,
		moves: func(ranks int) float64 { return 2 * float64(ranks-1) },
		steps: func(_ Convention, ranks int) [][]Move {
			var up, down [][]Move
			for far := 1; far < ranks; far *= 2 {
				var sums, copies []Move
				for rank := far; rank < ranks; rank += 2 * far {
					sums = append(sums, Move{From: rank, To: rank - far, Count: 1, Adds: true})
					copies = append(copies, Move{From: rank - far, To: rank, Count: 1})
				}
				up, down = append(up, sums), append(down, copies)
			}
			slices.Reverse(down)
			return append(up, down...)
		},
	}
}

// halvingDoubling describes Rabenseifner's all-reduce: a reduce-scatter in which the distance
// between partners and the size of their messages halve at every step, then an
// all-gather in which both double (Thakur et al. 2005, section 4.5).
func halvingDoubling() Collective {
	return Collective{
		Name:    "halving-doubling",
		Summary: "all-reduce between partners at half the distance with half the tensor, and back",
		Steps:   "2*log2(N)", Sent: "2(N-1)/N*S", Result: graph.AllReduce, Algorithm: "halving-doubling",
		moves: func(ranks int) float64 { return 2 * float64(ranks) * float64(bits.Len(uint(ranks))-1) },
		steps: func(_ Convention, ranks int) [][]Move {
			var halving, doubling [][]Move
			for half := ranks / 2; half > 0; half /= 2 {
				var sums, copies []Move
				for rank := range ranks {
					partner := rank ^ half
					own, other := rank&^(half-1), partner&^(half-1) // the first chunk that each keeps
					sums = append(sums, Move{
						From: rank, To: partner, Chunk: other, Count: half, Place: other, Adds: true,
					})
					copies = append(copies, Move{From: rank, To: partner, Chunk: own, Count: half, Place: own})
				}
				halving, doubling = append(halving, sums), append(doubling, copies)
			}
			slices.Reverse(doubling)
			return append(halving, doubling...)
		},
		legal: func(ranks int) error {
			if ranks&(ranks-1) != 0 {
				return fmt.Errorf("ranks = %d: halving-doubling needs a power of two, such as %d",
					ranks, 1<<(bits.Len(uint(ranks))-1))
			}
			return nil
		},
	}
}

// allToAll lets every rank send a chunk to every other rank, at step i to the rank i
// places after it (MPICH's pairwise exchange).
func allToAll() Collective {
	return Collective{
		Name: "all-to-all", Summary: "every rank's chunk c goes to rank c, in N-1 pairwise steps",
		Steps: "N-1", Sent: "(N-1)/N*S", Result: graph.AllToAll,
		moves: func(ranks int) float64 { return float64(ranks) * float64(ranks-1) },
		steps: func(_ Convention, ranks int) (steps [][]Move) {
			for far := 1; far < ranks; far++ {
				var step []Move
				for rank := range ranks {
					to := (rank + far) % ranks
					step = append(step, Move{From: rank, To: to, Chunk: to, Count: 1, Place: rank})
				}
				steps = append(steps, step)
			}
			return steps
		},
	}
}
