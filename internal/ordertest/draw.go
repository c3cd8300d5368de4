package ordertest

import (
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

// Draw draws a legal pipeline: a plain order of the catalog, some of whose full
// backwards are split, over any placement, replicas, and sizes.
func Draw(t *rapid.T) wiring.Pipeline {
	s := rapid.SampledFrom(schedules.Catalog()).Filter(func(s schedules.Schedule) bool { return plain(t, s) }).Draw(t, "schedule")
	shape := rapid.SampledFrom(Served(s, 4, 5, 3)).Draw(t, "shape")
	var placement []int32
	if s.MultiStage && s.Pipelined {
		placement = rapid.SliceOfN(rapid.Int32Range(0, int32(shape.Ranks-1)), 1, 6).Draw(t, "placement")
	}
	if shape.Replicas = rapid.IntRange(1, 3).Draw(t, "replicas"); s.Check(shape) != nil {
		shape.Replicas = 1
	}
	p, err := s.Pipeline(shape, placement)
	require.NoError(t, err)
	m, stages := shape.Microbatches, len(p.Placement.First)
	if rapid.Bool().Draw(t, "split") {
		p.Order = Split(p.Order)
	}
	p.Samples = rapid.SliceOfN(rapid.Int64Range(1, 9), m, m).Draw(t, "samples")
	p.Boundaries = make([]wiring.Boundary, stages-1)
	for s := range p.Boundaries {
		p.Boundaries[s] = wiring.Boundary{Forward: int64(100 + s), Backward: int64(200 + s)}
	}
	p.Optimizer = rapid.Bool().Draw(t, "optimizer")
	return p
}

// plain reports whether the wiring of a schedule follows from its order alone. Its stages must
// have one copy, its backwards must be all whole or all split, may run at the same time and
// update nothing, and there must be no pairs.
func plain(t rapid.TB, s schedules.Schedule) bool {
	if s.SerialBackward || s.Stashing || s.Placement(s.Example()).Second != nil {
		return false
	}
	o, err := s.Order(s.Example(), nil)
	require.NoError(t, err)
	for _, actions := range o {
		for _, a := range actions {
			if a.Pair || a.Kind == graph.Backward && o.Split() {
				return false
			}
		}
	}
	return true
}

// DrawAny draws a pipeline with any features of wiring, whether or not the combination makes
// sense: any order of the catalog, messages of several sizes, all ways to sum gradients and to
// gather parameters, pairs, experts, barriers.
func DrawAny(t *rapid.T) wiring.Pipeline {
	p := Draw(t)
	some := rapid.Bool()
	if some.Draw(t, "as the catalog has it") {
		p = drawScheduled(t, p.Shape.Replicas)
	}
	stages := max(p.Placement.Stages(), len(p.Boundaries)+1)
	if some.Draw(t, "sums") {
		drawSync(t, &p, stages)
	}
	if stages > 1 && some.Draw(t, "tied") {
		p.Tied = []wiring.Tied{{Stages: []int{0, stages - 1}, Bytes: 7}, {Stages: []int{0}}}
	}
	if r := p.Shape.Replicas; r > 1 && rapid.IntRange(0, 3).Draw(t, "shards") == 0 {
		p.Samples = nil // which shards take the place of
		p.Shards = rapid.SliceOfN(rapid.Int64Range(1, 3), r, r).Draw(t, "shares")
	}
	whole := p.Sync.Units == nil
	if (whole || p.Sync.ShardSpan == 0 && !p.Order.Paired()) && some.Draw(t, "experts") {
		DrawExperts(t, &p)
		if p.Shards != nil {
			p.ExpertSpan = 1
		}
		p.DelayWeights = whole && some.Draw(t, "delayed weights")
	}
	p.Unsplit = !p.DelayWeights && some.Draw(t, "first stage unsplit")
	seldom := rapid.IntRange(0, 4)
	p.Synchronous, p.WholeLast = seldom.Draw(t, "synchronous") == 0, seldom.Draw(t, "whole last") == 0
	p.SerialBackward = p.SerialBackward || seldom.Draw(t, "serial backward") == 0
	p.Layered = p.Sync.Units != nil
	if p.Shape.Ranks == 1 && !p.WholeLast && seldom.Draw(t, "offload") == 0 {
		drawOffload(t, &p)
	}
	p.Sync.Staging = seldom.Draw(t, "staging") == 0
	if !p.Stashing && seldom.Draw(t, "loop") == 0 {
		p.Loop = &wiring.Loop{Gradients: make([]int64, p.Shape.Ranks), Logits: 11}
	}
	return p
}

// drawScheduled draws a pipeline of a schedule of the catalog.
func drawScheduled(t *rapid.T, replicas int) wiring.Pipeline {
	s := rapid.SampledFrom(schedules.Catalog()).Draw(t, "other schedule")
	shape := rapid.SampledFrom(Served(s, 4, 8, 3)).Draw(t, "other shape")
	if shape.Replicas = replicas; s.Check(shape) != nil {
		shape.Replicas = 1
	}
	p, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	p.Pairs = rapid.SampledFrom([]wiring.Pairing{wiring.Serial, wiring.Fused, wiring.Overlap}).Draw(t, "pairs")
	p.Optimizer = rapid.Bool().Draw(t, "with optimizer")
	return p
}

// drawSync draws how gradients are summed and parameters gathered.
func drawSync(t *rapid.T, p *wiring.Pipeline, stages int) {
	some, bytes := rapid.Bool(), rapid.Int64Range(0, 50)
	pieces := rapid.SliceOfN(bytes, 0, 3)
	s := &p.Sync
	s.Overlap, s.Sharded, s.EveryMicrobatch = some.Draw(t, "overlap"), some.Draw(t, "sharded"), some.Draw(t, "every microbatch")
	s.Width = rapid.IntRange(0, 2).Draw(t, "width")
	if rapid.IntRange(0, 3).Draw(t, "units") == 0 {
		for range stages {
			s.Units = append(s.Units, wiring.Unit{Gather: pieces.Draw(t, "gather"), Scatter: pieces.Draw(t, "scatter"), Share: 3})
		}
		if n := p.Shape.Replicas; n > 1 && some.Draw(t, "in groups") {
			s.ShardSpan = rapid.SampledFrom(divisors(n)[:len(divisors(n))-1]).Draw(t, "replicas of a group")
		}
		return
	}
	s.Parameters = rapid.SliceOfN(pieces, stages, stages).Draw(t, "parameters")
	ahead := p.Placement.Second == nil && rapid.IntRange(0, 2).Draw(t, "ahead") == 0
	for range stages {
		s.Buckets = append(s.Buckets, pieces.Draw(t, "buckets"))
		if ahead {
			s.Ahead = append(s.Ahead, pieces.Draw(t, "pieces"))
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "broadcast") == 0 {
		s.Broadcast = s.Buckets
	}
}

// drawOffload lets the first stages of a rank copy what they keep to the host, where the order allows it.
func drawOffload(t *rapid.T, p *wiring.Pipeline) {
	if p.Stashing || p.Synchronous || p.SerialBackward || p.Order.Paired() || p.Order.Split() {
		return
	}
	stages := p.Placement.Stages()
	o := &wiring.Offload{Bytes: make([]int64, stages), Behind: make([]int32, stages)}
	n := rapid.IntRange(0, stages-1).Draw(t, "offloaded stages")
	for s := range stages {
		if o.Behind[s] = graph.None; s < n {
			o.Bytes[s] = int64(50 + s)
		}
		if from := s - (stages - n); from >= 0 && from < n {
			o.Behind[s] = int32(from)
		}
	}
	p.Offload = o
}
