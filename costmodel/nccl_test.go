package costmodel_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// switches is the machine of nodes, whose switches add up at 20 B/µs, with a network that adds up.
func switches() costmodel.Machine {
	m := nodes()
	m.Link.NVLS, m.Network.SHARP, m.Link.Call, m.Network.Call, m.Link.PATRank = 20e6, true, 7000, 7000, 2800
	return m
}

// Closed forms of what switches and PAT do, with numbers that can be followed by hand.
func TestLibraryAlgorithms(t *testing.T) {
	m := switches()
	apart := func(n int) link.Link { // one rank on each node
		ranks := make([]int32, n)
		for i := range ranks {
			ranks[i] = int32(4 * i)
		}
		return m.Group(ranks)
	}
	for _, c := range []struct {
		what, algorithm string
		kind            graph.Kind
		link            link.Link
		n               int
		bytes           int64
		want            time.Duration
	}{
		{"read and write: 800 and 200 bytes on 20 B/µs", link.NVLSAlgorithm, graph.AllReduce, m.Group(ranksUpTo(4)), 4, 800, 7*us + 2*us + 50*us},
		{"one step, all bytes", link.NVLSAlgorithm, graph.AllGather, m.Group(ranksUpTo(4)), 4, 800, 7*us + us + 40*us},
		{"over nodes it is a ring of 15 steps, 4 of them between", link.NVLSAlgorithm, graph.AllGather, m.Group(ranksUpTo(16)), 16, 1600, 7*us + 15*10*us + (4*3+11)*us},
		// Four nodes send 2400 bytes on 10 B/µs; a switch has 1200 and 300 on 20.
		{"2 levels up and down, 2 steps in nodes", link.NVLSTreeAlgorithm, graph.AllReduce, m.Group(ranksUpTo(16)), 16, 1200, 7*us + 4*3*us + 2*us + 240*us},
		{"a tree scatters nothing: ring", link.NVLSTreeAlgorithm, graph.ReduceScatter, m.Group(ranksUpTo(16)), 16, 1600, 7*us + 15*10*us + (4*3+11)*us},
		// A card has 5 B/µs, of which PAT is credited with 3.75.
		{"2 steps, 2.8 µs a rank, 600 bytes", link.PATAlgorithm, graph.AllGather, apart(4), 4, 800, 7*us + 2*3*us + 11200 + 160*us},
		{"5 ranks make 3 steps, 640 bytes", link.PATAlgorithm, graph.ReduceScatter, apart(5), 5, 750, 7*us + 3*3*us + 14*us + 160*us},
		{"PAT sums nothing up: ring", link.PATAlgorithm, graph.AllReduce, apart(4), 4, 800, 7*us + 6*(3+40)*us},
		{"several ranks on a node: ring", link.PATAlgorithm, graph.AllGather, m.Group(ranksUpTo(16)), 16, 1600, 7*us + 15*10*us + (4*3+11)*us},
		{"a card sends 800 bytes once", link.SHARPAlgorithm, graph.AllReduce, apart(4), 4, 800, 7*us + 2*3*us + 160*us},
		{"a node sends 800 bytes once on 10 B/µs; rings in nodes have 1200", link.SHARPAlgorithm, graph.AllReduce, m.Group(ranksUpTo(16)), 16, 800, 7*us + 2*3*us + 2*us + 120*us},
	} {
		c.link.Algorithm = c.algorithm
		require.Equal(t, c.want, c.link.CollectiveTime(c.kind, c.n, c.bytes), "%s: %s", c.algorithm, c.what)
	}
	adding := m.Group(ranksUpTo(16))
	adding.Algorithm, adding.NCCL = link.SHARPAlgorithm, 2_18_00
	require.Equal(t, 7*us+2*3*us+2*us+80*us, adding.CollectiveTime(graph.AllReduce, 16, 800), "800 and 200 bytes on 20 B/µs by NVLS")
}

// Steps of PAT are ⌈log₂ n⌉ beside 2.8 µs a rank, and its bytes the ring's; a switch moves 1 + 1/n of the bytes of
// an all-reduce, in two steps for any number of ranks.
func TestStepsAndBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, step := rapid.IntRange(2, 4096).Draw(t, "n"), rapid.IntRange(1, 1e5).Draw(t, "latency")
		l := link.Link{Bandwidth: 1e9, NVLS: 1e9, Latency: units.Duration(step), PATRank: 2800}.Apart()
		named := func(algorithm string, k graph.Kind, bytes int64) time.Duration {
			l.Algorithm = algorithm
			return l.CollectiveTime(k, n, bytes)
		}
		steps := named(link.PATAlgorithm, graph.AllGather, 0) - time.Duration(n)*2800
		require.Equal(t, math.Ceil(math.Log2(float64(n))), float64(steps)/float64(step))
		bytes := int64(n) * rapid.Int64Range(0, 1e9).Draw(t, "S/n")
		moved := func(algorithm string) float64 {
			return float64(named(algorithm, graph.AllGather, bytes) - named(algorithm, graph.AllGather, 0))
		}
		require.InDelta(t, moved(link.RingAlgorithm), 0.75*moved(link.PATAlgorithm), float64(n))
		l = link.Link{Bandwidth: 1e9, NVLS: 1e9, Latency: units.Duration(step)}
		sum := named(link.NVLSAlgorithm, graph.AllReduce, bytes) - 2*time.Duration(step)
		require.InDelta(t, float64(bytes)+float64(bytes)/float64(n), float64(sum), 1)
	})
}

// release is a version of NCCL, and what it may choose beside rings and trees.
type release struct {
	version       link.Version
	sums, gathers []string
}

var releases = []release{
	{0, nil, nil},
	{2_05_00, nil, nil},
	{2_16_05, []string{link.SHARPAlgorithm}, nil},
	{2_17_01, []string{link.SHARPAlgorithm, link.NVLSAlgorithm}, nil},
	{2_18_06, []string{link.SHARPAlgorithm, link.NVLSAlgorithm, link.NVLSTreeAlgorithm}, nil},
	{2_19_03, []string{link.SHARPAlgorithm, link.NVLSAlgorithm, link.NVLSTreeAlgorithm}, []string{link.NVLSAlgorithm}},
	{2_23_04, []string{link.SHARPAlgorithm, link.NVLSAlgorithm, link.NVLSTreeAlgorithm}, []string{link.NVLSAlgorithm, link.PATAlgorithm}},
}

// A release takes the fastest of what it has and the group allows, never what came later, so that none is slower
// than the one before; broadcasts are rings in all of them.
func TestReleases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, ranks := drawNodes(t)
		bytes := rapid.Int64Range(0, 1e10).Draw(t, "S")
		var before [3]time.Duration
		for at, r := range releases {
			m.Link.NCCL = r.version
			l := m.Group(ranks)
			for i, kind := range []graph.Kind{graph.AllReduce, graph.AllGather, graph.ReduceScatter} {
				least := time.Duration(math.MaxInt64)
				allowed := append([]string{link.RingAlgorithm, link.TreeAlgorithm}, r.gathers...)
				if kind == graph.AllReduce {
					allowed = append([]string{link.RingAlgorithm, link.TreeAlgorithm}, r.sums...)
				}
				for _, name := range allowed {
					l.Algorithm = name
					least = min(least, l.CollectiveTime(kind, len(ranks), bytes))
				}
				l.Algorithm = link.Auto
				now := l.CollectiveTime(kind, len(ranks), bytes)
				require.Equal(t, least, now, "%s of %s", kind, r.version)
				require.True(t, at == 0 || now <= before[i], "%s of %s", kind, r.version)
				before[i] = now
			}
			l.NCCL = 0
			ring := l.CollectiveTime(graph.Broadcast, len(ranks), bytes)
			l.NCCL = r.version
			require.Equal(t, ring, l.CollectiveTime(graph.Broadcast, len(ranks), bytes))
		}
	})
}

// A switch gathers among up to 32 ranks, and half of a sum that it may have added up is not a gather.
func TestSwitchGathers(t *testing.T) {
	l := link.Link{Bandwidth: 1e6, Latency: 1000, NVLS: 1e6, NCCL: 2_29_02, Algorithm: link.Auto}
	require.Equal(t, us, l.CollectiveTime(graph.AllGather, 32, 0))
	require.Equal(t, 32*us, l.CollectiveTime(graph.AllGather, 33, 0), "a ring")
	l.AllReduce = []link.SizeRange{{Ranks: 8, Call: 1000, Bandwidth: 1e9}}
	require.Equal(t, us, l.CollectiveTime(graph.AllReduce, 8, 0))
	require.Equal(t, 7*us+875*us, l.CollectiveTime(graph.Broadcast, 8, 875), "the ring's")
	ring := l
	ring.Algorithm = link.RingAlgorithm
	require.Equal(t, us/2, ring.CollectiveTime(graph.AllGather, 8, 0), "half of what rings took")
	require.Equal(t, us, l.CollectiveTime(graph.AllGather, 8, 0), "a step of the switch")
}

func TestVersion(t *testing.T) {
	for text, code := range map[string]link.Version{"2.4": 2_04_00, "2.30": 2_30_00, "2.23.4": 2_23_04} {
		var v link.Version
		require.NoError(t, v.UnmarshalTOML(text))
		require.Equal(t, code, v)
		require.Equal(t, text, v.String())
	}
	for _, wrong := range []any{"", "2", "v2.23", "2.100", "2.23.4.1", "2.-1", 2.3} {
		v := link.Version(1)
		require.Error(t, v.UnmarshalTOML(wrong), wrong)
		require.Equal(t, link.Version(1), v)
	}
	assert.True(t, link.Version(2_23_04).Same(2_29_02))
	assert.False(t, link.Version(2_22_03).Same(2_23_04))
	assert.False(t, link.Version(0).Same(2_17_01))
	assert.True(t, link.Version(0).Same(2_05_00))
}
