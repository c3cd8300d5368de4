package link

import (
	"math"
	"math/bits"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// The algorithms of collectives that a link may name. Auto is the fastest of those that NCCL has in
// the link's version, for this group. HalvingDoubling (MPI, Gloo) and Hierarchical (Horovod) are used
// only if they are named.
const (
	Auto              = "auto"
	RingAlgorithm     = "ring"
	TreeAlgorithm     = "tree"
	NVLSAlgorithm     = "nvls"
	NVLSTreeAlgorithm = "nvls-tree"
	PATAlgorithm      = "pat"
	SHARPAlgorithm    = "sharp"
	HalvingDoubling   = "halving-doubling"
	Hierarchical      = "hierarchical"
)

// Algorithms lists the values of Link.Algorithm.
func Algorithms() []string {
	return append(append([]string{RingAlgorithm}, others[:]...), Auto)
}

// others lists the algorithms that may take the place of a ring.
var others = [...]string{
	TreeAlgorithm, NVLSAlgorithm, NVLSTreeAlgorithm, PATAlgorithm, SHARPAlgorithm, HalvingDoubling, Hierarchical,
}

// CollectiveTime returns the time of a fused collective over n ranks with a tensor of that size:
// the measured time if a table of the link has n ranks; else the closed form of the link's
// algorithm. A ring replaces an algorithm that is not possible for the group.
func (l Link) CollectiveTime(k graph.Kind, n int, bytes int64) time.Duration {
	switch {
	case n < 2:
		return 0
	case k == graph.Broadcast:
		return l.broadcastTime(n, bytes)
	}
	if took, ok := l.measured(k, n, bytes); ok {
		return took
	}
	best := l.ringTime(k, n, bytes)
	for _, candidate := range others {
		if l.Algorithm != candidate && (l.Algorithm != Auto || !l.has(candidate, k)) {
			continue
		}
		took, possible := l.alternative(candidate, k, n, bytes)
		if possible && (took < best || l.Algorithm == candidate) {
			best = took
		}
	}
	return best
}

// OwnersTime returns the time in which each of n ranks broadcasts its part of a tensor to all others,
// one after another.
func (l Link) OwnersTime(n int, bytes int64) time.Duration {
	return units.Repeat(n, l.CollectiveTime(graph.Broadcast, n, (bytes+int64(n)-1)/int64(n)))
}

// broadcastTime prices a ring on which every rank but the last passes on the whole tensor, in
// small pieces: n − 1 steps of latency, and the time to move all bytes once. That equals an
// all-gather of n/(n−1) times the bytes, so it uses the table of all-reduces if there is one, or
// that of gathers where a switch adds up all-reduces.
// With halving-doubling it is a binomial tree: log₂ n steps, each with the whole tensor (Thakur,
// Rabenseifner & Gropp 2005, section 4.2; Gloo).
func (l Link) broadcastTime(n int, bytes int64) time.Duration {
	if l.Algorithm == HalvingDoubling {
		step := units.Sum(time.Duration(l.Latency), units.Seconds(float64(bytes)/l.BusBandwidth()))
		return units.Sum(time.Duration(l.Call), units.Repeat(log2(n), step))
	}
	if l.adds() {
		l.AllReduce = nil
	} else {
		l.AllGather = nil
	}
	if l.NCCL = 0; l.Algorithm == NVLSAlgorithm || l.Algorithm == PATAlgorithm { // NCCL has rings for broadcasts
		l.Algorithm = RingAlgorithm
	}
	return l.CollectiveTime(graph.AllGather, n, bytes+bytes/int64(n-1))
}

// alternative prices an algorithm other than the ring, if it is possible. Trees are only for
// all-reduces; those that add up in nodes, and the hierarchical algorithm, need several nodes with
// several ranks each, and PAT one rank on each.
func (l Link) alternative(algorithm string, k graph.Kind, n int, bytes int64) (took time.Duration, possible bool) {
	switch algorithm {
	case HalvingDoubling:
		return l.halvingTime(k, n, bytes), true
	case TreeAlgorithm:
		return l.treeTime(n, bytes), k == graph.AllReduce
	case NVLSAlgorithm:
		if l.NVLS == 0 || l.levels != nil || l.apart || k != graph.AllReduce && n > nvlsGathers {
			return 0, false
		}
		return l.nvlsTime(k, n, bytes), true
	case PATAlgorithm:
		return l.patTime(n, bytes), l.apart && k != graph.AllReduce
	case SHARPAlgorithm:
		if !l.SHARP || k != graph.AllReduce || l.levels == nil && !l.apart || l.levels != nil && l.levels.perNode == 0 {
			return 0, false
		}
		return l.sharpTime(bytes), true
	}
	if l.levels == nil || l.levels.perNode == 0 {
		return 0, false
	}
	if algorithm == NVLSTreeAlgorithm {
		if l.levels.within.NVLS == 0 || k != graph.AllReduce {
			return 0, false
		}
		return l.nvlsTreeTime(bytes), true
	}
	return l.hierarchicalTime(k, bytes), true
}

// ringTime evaluates the closed form of a ring: n − 1 steps of bytes/n for a reduce-scatter or an
// all-gather, twice that for an all-reduce (Patarasuk & Yuan 2009, section 3). On equal links,
// with a length that n divides, a simulation of collective.Call gives the same time. In a ring
// over several nodes, one step for each node goes between nodes, and all other steps stay inside
// a node.
func (l Link) ringTime(k graph.Kind, n int, bytes int64) time.Duration {
	step, moves := units.Seconds(float64(bytes)/float64(n)/l.BusBandwidth()), Moves(k)
	if l.levels == nil {
		step = units.Sum(step, time.Duration(l.Latency))
		return units.Sum(time.Duration(l.Call), units.Repeat(moves*(n-1), step))
	}
	between := min(l.levels.nodes, n-1)
	return units.Sum(time.Duration(l.Call), units.Repeat(moves*(n-1), step),
		units.Repeat(moves*between, time.Duration(l.levels.across.Latency)),
		units.Repeat(moves*(n-1-between), time.Duration(l.levels.within.Latency)))
}

// treeTime prices an all-reduce through two binary trees. Each tree takes half of the tensor, up
// and down, in pieces so small that levels overlap: 2⌈log₂ n⌉ steps of latency. Every rank sends
// its half up one tree, and to two children down the other: twice the bytes in all (Sanders,
// Speck & Träff 2009; NCCL 2.4). Two ranks have a single child and send the bytes once. Over
// several nodes the trees connect nodes, and the ranks of a node form a chain; the slower of the
// two levels bounds the flow.
func (l Link) treeTime(n int, bytes int64) time.Duration {
	if l.levels == nil || l.levels.perNode == 0 {
		return units.Sum(time.Duration(l.Call), units.Repeat(2*log2(n), time.Duration(l.Latency)),
			units.Seconds(treeBytes(n, bytes)/l.BusBandwidth()))
	}
	v := l.levels
	flow := max(treeBytes(v.nodes, bytes)/v.across.BusBandwidth(),
		treeBytes(v.perNode, bytes)/v.within.BusBandwidth())
	return units.Sum(time.Duration(l.Call), units.Repeat(2*log2(v.nodes), time.Duration(v.across.Latency)),
		units.Repeat(2*(v.perNode-1), time.Duration(v.within.Latency)), units.Seconds(flow))
}

// treeBytes returns the bytes that the busiest rank of two trees sends.
func treeBytes(n int, bytes int64) float64 {
	if n == 2 {
		return float64(bytes)
	}
	return 2 * float64(bytes)
}

// halvingTime prices recursive halving, doubling, or both in turn: log₂ n steps each, with the
// bytes of a ring (Thakur, Rabenseifner & Gropp 2005, sections 4.1 to 4.4). If n is not a power
// of two, the ranks beyond the largest power first give their tensors to other ranks, and get
// the result in the end. It assumes that any two ranks can exchange at full speed.
func (l Link) halvingTime(k graph.Kind, n int, bytes int64) time.Duration {
	power := 1 << (bits.Len(uint(n)) - 1)
	rounds, folds := Moves(k), 0
	if n > power {
		folds = rounds
	}
	share := float64(power-1) / float64(power)
	moved := (float64(rounds)*share + float64(folds)) * float64(bytes)
	return units.Sum(time.Duration(l.Call), units.Repeat(rounds*log2(power)+folds, time.Duration(l.Latency)),
		units.Seconds(moved/l.BusBandwidth()))
}

// hierarchicalTime prices a collective in two levels, one after the other: a reduce-scatter in
// every node, the collective between nodes over each rank's share, and an all-gather in every
// node (Thakur et al. 2005 propose it for clusters of SMPs; NCCL, Horovod and BlueConnect have
// it). The shares of the ranks of a node use all of its network cards.
func (l Link) hierarchicalTime(k graph.Kind, bytes int64) time.Duration {
	v := l.levels
	within := func(k graph.Kind) time.Duration { return v.within.CollectiveTime(k, v.perNode, bytes) }
	between := v.across.ringTime(k, v.nodes, bytes)
	if k == graph.AllReduce {
		return units.Sum(within(graph.ReduceScatter), between, within(graph.AllGather))
	}
	return units.Sum(within(k), between)
}

// An AllToAll describes the links of an all-to-all in which every device sends to Peers other
// devices of its node over Within, and to other nodes over its share of a network, Across.
type AllToAll struct {
	Peers          int
	Within, Across Link
}

// Time returns the time of an all-to-all, given the bytes that a device sends inside its node
// and between nodes. It sends to all receivers at once. A switch that adds up tensors of other
// collectives does not make it faster.
func (a AllToAll) Time(inside, between float64) time.Duration {
	var call, latency, moving time.Duration
	for _, part := range []struct {
		link  Link
		bytes float64
	}{{a.Within, inside}, {a.Across, between}} {
		l := part.link
		if part.bytes == 0 {
			continue
		}
		rate := min(float64(l.Bandwidth), l.BusBandwidth())
		if l.AllToAll > 0 {
			rate = min(float64(l.AllToAll), float64(l.Bandwidth)*float64(a.Peers))
		}
		call, latency = max(call, time.Duration(l.Call)), max(latency, time.Duration(l.Latency))
		moving = max(moving, units.Seconds(part.bytes/rate))
	}
	return units.Sum(call, latency, moving)
}

// log2 returns the logarithm of n, rounded up.
func log2(n int) int { return int(math.Ceil(math.Log2(float64(n)))) }
