package costmodel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/group"
	"psim/costmodel/link"
	"psim/costmodel/models"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// dividedGPT is a small GPT, and the machine, for groups of t devices.
func dividedGPT(t tester, g group.Group) (network.Network, costmodel.Machine) {
	t.Helper()
	n, err := models.Model{Family: "gpt", Layers: 4, Hidden: 64, Heads: 4, Vocab: 64, SequenceLength: 32, Dropout: 0.1}.On(g)
	require.NoError(t, err)
	m := machine()
	m.Tensor = g.Devices
	return n, m
}

// tensorRun simulates it on two pipeline ranks.
func tensorRun(t tester, g group.Group, schedule, recompute string, change func(*costmodel.Machine)) (*graph.Trace, graph.Summary) {
	t.Helper()
	n, m := dividedGPT(t, g)
	change(&m)
	w := workload(t, n, []int32{0, 1}, 2, 2, 2)
	w.Training.Recompute = recompute
	o := orderOf(t, "gpipe", w)
	if schedule == "zb-h1" {
		o = splitOrders(o)[schedule]
	}
	trace := simulate(t, w, m, graphOf(t, w, o))
	return trace, graph.Summarize(trace)
}

func unchanged(*costmodel.Machine) {}

// By hand: a block exchanges 4 all-reduces of s·b·h elements, of which the two
// of the backward run beside weight gradients.
func TestBlockCommunication(t *testing.T) {
	const bytes = 3 * 32 * 64 * 4 // three samples in fp32
	for _, e := range []struct {
		group                  group.Group
		communication, exposed int64 // all-gathers of that size; an all-reduce is two
		sent                   int64
	}{
		{group.Group{Devices: 2}, 8, 8, 8},
		{group.Group{Devices: 4}, 8, 8, 8},
		{group.Group{Devices: 4, Sequence: true}, 10, 10, 10},
	} {
		n, m := dividedGPT(t, e.group)
		n.Layers = n.Layers[1:2]
		w := stages.Workload{Network: n, Layers: []int{1}, Placement: graph.Placement{First: []int32{0}}, Samples: []int64{3}}
		g := graphOf(t, w, orderOf(t, "ddp", w))
		s := graph.Summarize(simulate(t, w, m, g))
		one := m.Link.CollectiveTime(graph.AllGather, e.group.Devices, bytes)
		rank := s.Ranks[0]
		require.Equal(t, time.Duration(e.communication)*one, rank.Communication, "%+v", e.group)
		require.Equal(t, time.Duration(e.exposed)*one, rank.ExposedCommunication, "%+v", e.group)
		d := int64(e.group.Devices)
		require.Equal(t, e.sent*bytes*(d-1)/d, rank.SentBytes)
		require.Equal(t, s.StepTime, rank.Compute+rank.ExposedCommunication+rank.Optimizer+rank.Idle)

		n, m = dividedGPT(t, group.Group{Devices: e.group.Devices, Sequence: e.group.Sequence, Overlap: true})
		m.Device.Launch = 1e6 // long products
		n.Layers = n.Layers[1:2]
		w.Network = n
		hidden := graph.Summarize(simulate(t, w, m, g)).Ranks[0]
		exposed := map[bool]int64{false: 4, true: 2 + 2 + 2}[e.group.Sequence]
		require.Equal(t, rank.Communication, hidden.Communication)
		require.Equal(t, time.Duration(exposed)*one, hidden.ExposedCommunication, "%+v", e.group)
	}
}

// drawGroup draws a group of the small GPT.
func drawGroup(t *rapid.T) group.Group {
	return group.Group{
		Devices: rapid.SampledFrom([]int{2, 4}).Draw(t, "tensor"), Sequence: rapid.Bool().Draw(t, "sequence"),
		Overlap: rapid.Bool().Draw(t, "overlap"), Scatter: rapid.Bool().Draw(t, "scatter"),
	}
}

// The parts of every rank add up to the step, and the ledger to zero; overlap
// hides communication and makes nothing slower; a link without cost leaves none.
func TestTensorParallel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t)
		schedule := rapid.SampledFrom([]string{"gpipe", "zb-h1"}).Draw(t, "schedule")
		recompute := rapid.SampledFrom([]string{"none", "selective", "full", "norm", "mlp,norm"}).Draw(t, "recompute")
		trace, s := tensorRun(t, g, schedule, recompute, unchanged)
		ledger(t, trace)
		for _, r := range s.Ranks {
			require.Equal(t, s.StepTime, r.Compute+r.ExposedCommunication+r.Optimizer+r.Idle)
			require.Positive(t, r.ExposedCommunication)
			require.GreaterOrEqual(t, r.Communication, r.ExposedCommunication)
		}
		g.Overlap = false
		_, apart := tensorRun(t, g, schedule, recompute, unchanged)
		require.LessOrEqual(t, s.StepTime, apart.StepTime)
		_, free := tensorRun(t, g, schedule, recompute, func(m *costmodel.Machine) { m.Link = link.Link{Bandwidth: 1e30} })
		require.LessOrEqual(t, free.StepTime, s.StepTime)
		for _, r := range free.Ranks {
			require.Zero(t, r.Communication)
		}
	})
}

// innerOf sums the communication within tasks by rank.
func innerOf(trace *graph.Trace) []graph.Inner {
	sum := make([]graph.Inner, trace.Graph.Ranks())
	for i, task := range trace.Graph.Tasks() {
		if inner := trace.Inner(i); inner != nil {
			sum[task.Rank] = sum[task.Rank].Plus(*inner)
		}
	}
	return sum
}

// Slices of an overlapped backward have their shares of its communication.
func TestSlicesShareCommunication(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := dividedGPT(t, drawGroup(t))
		w := workload(t, n, []int32{0, 1}, 3, 3)
		w.Replicas = 2
		o := orderOf(t, "gpipe", w)
		whole := innerOf(stepOf(t, synced(w, 0, false), m, o))
		sliced := innerOf(stepOf(t, synced(w, rapid.Int64Range(0, 100_000).Draw(t, "bucket"), true), m, o))
		require.Equal(t, whole, sliced)
	})
}

// Ranks of four devices on nodes of eight: two ranks per node, and the devices
// of a rank share the cards.
func TestRanksOfDevices(t *testing.T) {
	m := costmodel.Machine{
		Device: device(), Tensor: 4, DevicesPerNode: 8, NICsPerNode: 8,
		Link: link.Link{Bandwidth: 100, Collective: 80}, Network: link.Link{Bandwidth: 10},
	}
	require.Equal(t, 2, m.Nodes(3))
	require.Equal(t, 2, m.Nodes(4))
	for _, e := range []struct {
		nics int
		rate float64
		card int32
	}{{8, 10, 4}, {4, 10, 0}, {2, 5, 0}, {1, 2.5, 0}, {0, 2.5, 0}} {
		m.NICsPerNode = e.nics
		l := m.Between(1, 2)
		require.EqualValues(t, e.rate, l.Bandwidth, "%d cards", e.nics)
		require.Equal(t, 4*e.card+3, l.Queue)
		require.True(t, l.Network)
	}
	inside := m.Between(2, 3)
	require.EqualValues(t, 100, inside.Bandwidth)
	require.False(t, inside.Network)
	m.Link.Shared = "node"
	inside = m.Between(2, 3)
	require.EqualValues(t, 25, inside.Bandwidth)

	// Four rings over ranks 0 and 2, one for each device, on so many cards.
	for nics, rate := range map[int]float64{8: 10, 4: 10, 2: 5, 1: 2.5} {
		m.NICsPerNode = nics
		require.EqualValues(t, rate, m.Group([]int32{0, 2}).Collective, "%d cards", nics)
	}
	m.NICsPerNode = 8
	require.EqualValues(t, 20, m.Group([]int32{0, 1, 2, 3}).Collective) // two ranks on a node, two cards each
	require.EqualValues(t, 80, m.Group([]int32{0, 1}).Collective)

	m.Tensor = 16 // a rank of two nodes
	require.Equal(t, 2, m.Nodes(1))
	l := m.Between(0, 1).Link
	require.EqualValues(t, 10, l.Bandwidth)
}

// A group that is larger than a node exchanges over the network.
func TestGroupLink(t *testing.T) {
	step := func(devicesPerNode int) time.Duration {
		_, s := tensorRun(t, group.Group{Devices: 4}, "gpipe", "none", func(m *costmodel.Machine) {
			m.DevicesPerNode, m.Network = devicesPerNode, link.Link{Bandwidth: 1e8, Latency: 1e5}
		})
		return s.StepTime
	}
	require.Equal(t, step(0), step(8))
	require.Less(t, step(8), step(4)) // its messages leave the node
	require.Less(t, step(4), step(2))
}

func TestGroupAcrossNodes(t *testing.T) {
	n, m := dividedGPT(t, group.Group{Devices: 4})
	m.DevicesPerNode, m.Network = 6, m.Link
	w := workload(t, n, []int32{0, 1}, 1)
	g := graphOf(t, w, orderOf(t, "gpipe", w))
	_, err := costmodel.StepCosts(m, w.Staged(), g)
	require.ErrorContains(t, err, "devices_per_node = 6: some groups of parallel.tensor = 4 would be in two nodes")
	m.DevicesPerNode, m.Link = 0, link.Link{}
	_, err = costmodel.StepCosts(m, w.Staged(), g)
	require.ErrorContains(t, err, "link: 8 devices need one between them")
}

// In parts a boundary costs a quarter of the transfer, and a gathering by the
// receiver, of activations and of gradients.
func TestScatterGather(t *testing.T) {
	const boundary = 2 * 32 * 64 * 4 // two samples in fp32
	_, whole := tensorRun(t, group.Group{Devices: 4}, "gpipe", "none", unchanged)
	trace, parts := tensorRun(t, group.Group{Devices: 4, Scatter: true}, "gpipe", "none", unchanged)
	_, m := dividedGPT(t, group.Group{Devices: 4})
	gather := m.Link.CollectiveTime(graph.AllGather, 4, boundary)
	for i, task := range trace.Graph.Tasks() {
		if task.Kind.Message() {
			require.EqualValues(t, boundary/4, task.Bytes)
			require.Equal(t, m.Link.Transfer(boundary/4), trace.Span(i).Duration())
		}
	}
	for r := range parts.Ranks {
		sent := whole.Ranks[r].SentBytes - 3*boundary // three microbatches
		require.Equal(t, sent+3*boundary/4+3*boundary/4*3, parts.Ranks[r].SentBytes)
		require.Equal(t, whole.Ranks[r].PeakMemory, parts.Ranks[r].PeakMemory)
		require.Equal(t, whole.Ranks[r].Compute, parts.Ranks[r].Compute)
	}
	inner := func(g group.Group) time.Duration {
		trace, _ := tensorRun(t, g, "gpipe", "none", unchanged)
		return innerOf(trace)[0].Communication
	}
	require.Equal(t, 3*gather, inner(group.Group{Devices: 4, Scatter: true})-inner(group.Group{Devices: 4}))
}
