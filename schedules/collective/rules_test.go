package collective_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/golden"
	"psim/internal/ordertest"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// The published rules: to whom rank r sends, which chunk it sends and which it
// receives at step i of the reduce-scatter, and sends at step i of the
// all-gather; all modulo N. nccl's is MPICH's too.
var ringRules = map[string]struct{ to, send, receive, gather func(r, i int) int }{
	"baidu": {
		to:      func(r, i int) int { return r + 1 },
		send:    func(r, i int) int { return r - i },
		receive: func(r, i int) int { return r - i - 1 },
		gather:  func(r, i int) int { return r + 1 - i },
	},
	"nccl": {
		to:      func(r, i int) int { return r + 1 },
		send:    func(r, i int) int { return r - 1 - i },
		receive: func(r, i int) int { return r - 2 - i },
		gather:  func(r, i int) int { return r - i },
	},
	"gloo": {
		to:      func(r, i int) int { return r - 1 },
		send:    func(r, i int) int { return r + 1 + i },
		receive: func(r, i int) int { return r + 2 + i },
		gather:  func(r, i int) int { return r + i },
	},
}

func TestRingRules(t *testing.T) {
	require.Len(t, collective.Conventions(), len(ringRules))
	for name, rules := range ringRules {
		for n := 2; n <= 8; n++ {
			mod := func(a int) int { return (a + 4*n) % n }
			g := ring(t, collective.RingAllReduce, n, int64(3*n+1), name)
			sent, reduced := make([][]int, n), make([][]int, n)
			for _, task := range g.Tasks() {
				switch task.Kind {
				case graph.Send:
					require.Equal(t, int32(mod(rules.to(int(task.Rank), 0))), task.Peer)
					sent[task.Rank] = append(sent[task.Rank], int(task.Part))
				case graph.Reduce:
					reduced[task.Rank] = append(reduced[task.Rank], int(task.Part))
				}
			}
			for r := range n {
				var wantSent, wantReduced []int
				for i := range n - 1 {
					wantSent = append(wantSent, mod(rules.send(r, i)))
					wantReduced = append(wantReduced, mod(rules.receive(r, i)))
				}
				for i := range n - 1 {
					wantSent = append(wantSent, mod(rules.gather(r, i)))
				}
				require.Equal(t, wantSent, sent[r], "%s N=%d rank %d", name, n, r)
				require.Equal(t, wantReduced, reduced[r], "%s N=%d rank %d", name, n, r)
			}
		}
	}
}

func TestRingOwners(t *testing.T) {
	owners := func(c collective.Convention) (ranks []int) {
		for chunk := range 4 {
			ranks = append(ranks, c.Owner(chunk, 4))
		}
		return ranks
	}
	c := collective.Conventions()
	require.Equal(t, "nccl", c[0].Name)
	require.Equal(t, []int{0, 1, 2, 3}, owners(c[0]))
	require.Equal(t, "gloo", c[1].Name)
	require.Equal(t, []int{0, 1, 2, 3}, owners(c[1]))
	require.Equal(t, "baidu", c[2].Name)
	require.Equal(t, []int{3, 0, 1, 2}, owners(c[2]))
}

// Every rank sends 2(N−1) times; all together send 2(N−1) tensors, and each
// its share exactly where N divides the length.
func TestRingVolume(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 16).Draw(t, "ranks")
		length := int64(rapid.IntRange(0, 100).Draw(t, "length"))
		convention := rapid.SampledFrom(collective.Conventions()).Draw(t, "convention").Name
		for kind, phases := range map[string]int64{collective.RingAllReduce: 2, collective.RingReduceScatter: 1, collective.RingAllGather: 1} {
			s := graph.Summarize(ordertest.Relax(t, ring(t, kind, n, length, convention), ordertest.Unit))
			steps := phases * int64(n-1)
			require.Equal(t, n*int(steps), s.Messages)
			var total int64
			for _, r := range s.Ranks {
				total += r.SentBytes
				if length%int64(n) == 0 {
					require.Equal(t, steps*4*length/int64(n), r.SentBytes)
				}
			}
			require.Equal(t, steps*4*length, total)
		}
	})
}

func TestRingChunks(t *testing.T) {
	require.Equal(t, []int64{4, 3, 3}, collective.RingChunks(10, 3))
	require.Equal(t, []int64{1, 1, 0, 0}, collective.RingChunks(2, 4))
	require.Equal(t, []int64{0, 0}, collective.RingChunks(0, 2))
	rapid.Check(t, func(t *rapid.T) {
		length, n := rapid.Int64Range(0, 1<<40).Draw(t, "length"), rapid.IntRange(1, 50).Draw(t, "ranks")
		var total int64
		chunks := collective.RingChunks(length, n)
		for _, c := range chunks {
			total += c
		}
		require.Equal(t, length, total)
		require.LessOrEqual(t, chunks[0]-chunks[n-1], int64(1))
		require.IsNonIncreasing(t, append(chunks, -1))
	})
}

func TestRingOfThree(t *testing.T) {
	golden.Equal(t, "ring_graph.golden", ordertest.Dump(ring(t, collective.RingAllReduce, 3, 3, "")))
}

func TestRingErrors(t *testing.T) {
	for _, c := range []struct {
		call collective.Call
		want string
	}{
		{collective.Call{Collective: "broadcast", Ranks: 2}, `unknown collective "broadcast"; use one of ` + strings.Join(collective.Names(), ", ")},
		{collective.Call{Collective: collective.RingAllReduce}, "ranks = 0: there must be at least 1"},
		{collective.Call{Collective: collective.RingAllReduce, Ranks: 1<<14 + 1}, "ranks = 16385: must be at most 16384; a ring of more would have more than 1073741823 tasks"},
		{collective.Call{Collective: collective.RingAllReduce, Ranks: 2, Length: -1}, "the tensor has -1 elements of 0 bytes: neither may be negative"},
		{collective.Call{Collective: collective.RingAllReduce, Ranks: 2, Element: -4}, "the tensor has 0 elements of -4 bytes: neither may be negative"},
		{collective.Call{Collective: collective.RingAllReduce, Ranks: 2, Convention: "mpi"}, `unknown convention "mpi"; use one of nccl, gloo, baidu`},
	} {
		_, err := c.call.Graph()
		require.EqualError(t, err, c.want)
	}
	g, err := collective.Call{Collective: collective.RingAllReduce, Ranks: 1, Length: 5}.Graph()
	require.NoError(t, err)
	require.Zero(t, g.Len())
}
