package wiring_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/golden"
	"psim/internal/ordertest"
	"psim/schedules/wiring"
)

func TestGraphOfGPipe(t *testing.T) {
	p := ordertest.Pipeline(t, "gpipe", 2, 2)
	p.Optimizer = true
	golden.Equal(t, "gpipe_graph.golden", ordertest.Dump(ordertest.Graph(t, p)))
}

// No message stays within a rank: stages 1 and 2 share rank 1.
func TestGraphWithinARank(t *testing.T) {
	golden.Equal(t, "placement_graph.golden", ordertest.Dump(ordertest.Graph(t, ordertest.Pipeline(t, "gpipe", 2, 1, 0, 1, 1, 0))))
}

// The last microbatch is ragged.
func TestMessageBytes(t *testing.T) {
	p := ordertest.Pipeline(t, "1f1b", 2, 3)
	p.Boundaries = []wiring.Boundary{{Forward: 10, Backward: 7}}
	bytes := func(samples []int64) map[string]int64 {
		p.Samples = samples
		sizes := map[string]int64{}
		for _, task := range ordertest.Graph(t, p).Tasks() {
			if task.Kind.Message() {
				sizes[task.String()] = task.Bytes
			}
		}
		return sizes
	}
	require.Equal(t, map[string]int64{
		"0SEND_F0": 40, "0SEND_F1": 40, "0SEND_F2": 10,
		"1SEND_B0": 28, "1SEND_B1": 28, "1SEND_B2": 7,
	}, bytes([]int64{4, 4, 1}))
	require.Equal(t, int64(10), bytes(nil)["0SEND_F2"], "one sample each")
	p.Boundaries = nil
	require.Zero(t, bytes([]int64{4, 4, 1})["0SEND_F0"])
}

func TestPipelineErrors(t *testing.T) {
	legal := func() wiring.Pipeline { return ordertest.Pipeline(t, "1f1b", 2, 2) }
	for _, c := range []struct {
		want  string
		spoil func(*wiring.Pipeline)
	}{
		{"0 ranks and 2 microbatches: there must be at least one of each", func(p *wiring.Pipeline) { p.Shape.Ranks = 0 }},
		{"2 ranks and 0 microbatches: there must be at least one of each", func(p *wiring.Pipeline) { p.Shape.Microbatches = 0 }},
		{"the order has 2 ranks, the shape 3", func(p *wiring.Pipeline) { p.Shape.Ranks = 3 }},
		{"3 microbatch sizes for 2 microbatches", func(p *wiring.Pipeline) { p.Samples = []int64{1, 1, 1} }},
		{"2 boundaries for 2 stages", func(p *wiring.Pipeline) { p.Boundaries = make([]wiring.Boundary, 2) }},
		{"gradient buckets for 1 stages; there are 2", func(p *wiring.Pipeline) { p.Sync.Buckets = [][]int64{{1}} }},
		{"stage 1 has 65536 gradient buckets; at most 65535 are supported: use larger buckets", func(p *wiring.Pipeline) {
			p.Sync.Buckets = [][]int64{{1}, make([]int64, 1<<16)}
		}},
		{"parameter sizes for 0 stages; there are 2, and sharding gathers the parameters of each", func(p *wiring.Pipeline) {
			p.Shape.Replicas, p.Optimizer = 2, true
			p.Sync = wiring.Sync{Buckets: [][]int64{{1}, {1}}, Sharded: true}
		}},
		{"placement on rank 2: the ranks are 0 to 1", func(p *wiring.Pipeline) { p.Placement.First = []int32{0, 2} }},
		{"tied parameter 0 names no stage", func(p *wiring.Pipeline) { p.Tied = []wiring.Tied{{}} }},
		{"a tied parameter names a stage that does not exist", func(p *wiring.Pipeline) { p.Tied = []wiring.Tied{{Stages: []int{0, 2}}} }},
		{"the graph would have 3221225472 tasks; at most 2147483647 are supported: use fewer microbatches, stages or replicas", func(p *wiring.Pipeline) { p.Shape.Replicas = 1 << 28 }},
		{"1152921504606846976 replicas: at most 2147483647 tasks are supported", func(p *wiring.Pipeline) { p.Shape.Replicas = 1 << 60 }},
		{"rank 0: 0F2 is missing\n  step      0   1   2   3\n  rank 0: 0F0 0F1 0B0 0B1\n  ^^^^^^\n  rank 1: 1F0 1B0 1F1 1B1", func(p *wiring.Pipeline) { p.Shape.Microbatches = 3 }},
	} {
		p := legal()
		c.spoil(&p)
		_, err := p.Graph()
		require.EqualError(t, err, c.want)
	}
	_, err := legal().Graph()
	require.NoError(t, err)
}
