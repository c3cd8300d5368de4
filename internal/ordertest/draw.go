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

// plain reports whether the wiring of a schedule follows from its order alone: its
// stages have one copy, its backwards are all whole or all split, run beside each
// other and update nothing, and there are no pairs.
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
