package costmodel_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/costmodel"
	"psim/costmodel/link"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// drawSharing draws a training whose collectives may meet messages, or under ZeRO 3 each other.
func drawSharing(t *rapid.T) (w stages.Workload, m costmodel.Machine, schedule string) {
	w, m = drawWorkload(t)
	w.Replicas, w.Overlap, w.Bucket = rapid.IntRange(2, 3).Draw(t, "replicas that sum"), rapid.Bool().Draw(t, "overlap"), 100_000
	schedule = rapid.SampledFrom([]string{"gpipe", "1f1b", "zb-h1"}).Draw(t, "schedule")
	if m.Tensor == 1 && rapid.Bool().Draw(t, "ZeRO 3") {
		zero3 := sharded(w.Network, w.Replicas, w.Samples...)
		zero3.Training, zero3.Overlap = w.Training, w.Overlap
		w, schedule = zero3, "ddp"
	}
	return w, m, schedule
}

// A device's link carries in one direction no more than it can, in any interval: the messages and
// collectives that lie in it would not take longer one by one. Of what a rank receives this
// holds where collectives share the link.
func TestLinksCarryWhatTheyCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, m, schedule := drawSharing(t)
		g := graphOf(t, w, orderOf(t, schedule, w))
		costs, err := costmodel.StepCosts(m, w.Staged(), g)
		require.NoError(t, err)
		trace := run(t, g, costs)
		shared := g.Shared(costs.Ports)
		type use struct {
			graph.Span
			alone time.Duration
		}
		uses := map[int32][]use{} // by port
		for i, task := range g.Tasks() {
			span, alone := trace.Span(i), costs.Task(&task).Busy
			ports := []int32{}
			switch {
			case task.Kind.Message():
				both := costs.Ports.Message(&task)
				if ports = append(ports, both[0]); int(both[1]) < len(shared) && shared[both[1]] && both[1] != both[0] {
					ports = append(ports, both[1])
				}
			case task.Kind.Collective() && g.Groups[task.Peer][0] == task.Rank:
				ports = costs.Ports.Groups[task.Peer]
			}
			for _, port := range ports {
				uses[port] = append(uses[port], use{span, alone})
			}
		}
		for port, list := range uses {
			slices.SortFunc(list, func(a, b use) int { return int(a.Start - b.Start) })
			for i, from := range list {
				for _, to := range list {
					var sum time.Duration
					for _, u := range list[i:] {
						if u.End <= to.End {
							sum += u.alone
						}
					}
					require.LessOrEqual(t, sum, max(0, to.End-from.Start), "port %d", port)
				}
			}
		}
	})
}

// ZeRO 3 cannot send faster than its link: gathers and scatters of one communicator follow each other.
func TestUnitsSendNoFasterThanTheirLink(t *testing.T) {
	w := synced(sharded(mlp(t, 6, 64), 4, 1), 0, true)
	m := machine()
	m.Link = link.Link{Bandwidth: 1e6}
	trace := stepOf(t, w, m, orderOf(t, "ddp", w))
	s := graph.Summarize(trace)
	require.GreaterOrEqual(t, s.StepTime.Seconds(), float64(s.Ranks[0].SentBytes)/1e6)
}

// Two pipeline ranks sum gradients while messages pass: a message that meets a sum takes twice as long,
// and the sum as much longer as the message takes alone.
func TestMessageMeetsSum(t *testing.T) {
	g := &graph.Graph{Shape: graph.Shape{Ranks: 2, Microbatches: 1, Replicas: 2}, Placement: graph.InOrder(2)}
	for r := range int32(4) {
		g.AddStream(r, "sums")
		g.AddStream(r, "messages")
	}
	group := g.AddGroup([]int32{0, 2})
	for _, r := range g.Groups[group] {
		g.Add(graph.Task{Kind: graph.AllReduce, Rank: r, Stream: 2 * r, Stage: graph.None, Microbatch: graph.None, Peer: group, Bytes: 10e6})
	}
	sent := g.Add(graph.Task{Kind: graph.SendForward, Rank: 0, Stream: 1, Stage: 0, Microbatch: 0, Peer: 1, Bytes: 1e6})
	require.NoError(t, g.Validate())
	m := machine()
	m.Link = link.Link{Bandwidth: 1e6}
	w := stages.Workload{Network: network.Network(mlp(t, 2, 8)), Layers: []int{1, 1}, Placement: graph.InOrder(2), Samples: []int64{1}, Replicas: 2}
	costs, err := costmodel.StepCosts(m, w.Staged(), g)
	require.NoError(t, err)
	trace := run(t, g, costs)
	require.Equal(t, 2*time.Second, trace.Span(sent).Duration())
	require.Equal(t, 11*time.Second, trace.Span(0).Duration(), "of 10 s alone")
	require.Equal(t, trace.Span(0), trace.Span(1))
}
