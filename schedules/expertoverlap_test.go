package schedules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/wiring"
)

func overlapExperts(t *testing.T, name string, shape graph.Shape) wiring.Pipeline {
	t.Helper()
	s, err := schedules.Find(name)
	require.NoError(t, err)
	p, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	p, err = s.OverlapExperts(p)
	require.NoError(t, err)
	return p
}

func TestOverlapExperts(t *testing.T) {
	require.Equal(t, "0F0 (0F1;0B0)OVERLAP_F_B (0F2;0B1)OVERLAP_F_B 0B2\n",
		overlapExperts(t, "ddp", graph.Shape{Ranks: 1, Microbatches: 3}).Order.String())
	require.Equal(t,
		"0F0 0F1 0F2 (0F3;0B0)OVERLAP_F_B 0B1 0B2 0B3\n1F0 (1F1;1B0)OVERLAP_F_B (1F2;1B1)OVERLAP_F_B (1F3;1B2)OVERLAP_F_B 1B3\n",
		overlapExperts(t, "1f1b", graph.Shape{Ranks: 2, Microbatches: 4}).Order.String())
	s, err := schedules.Find("gpipe")
	require.NoError(t, err)
	_, err = s.OverlapExperts(wiring.Pipeline{})
	require.EqualError(t, err, "expert_overlap = true: overlaps forwards and backwards of 1f1b, interleaved-1f1b, ddp, dualpipe or dualpipev, not of gpipe; choose one of these, or set expert_overlap = false")
}

// A step with pairs lasts as long as one without where exchanges take no time. Where they
// take as long as what they are between, pairs hide three quarters of them or more.
func TestOverlapExpertsHides(t *testing.T) {
	for _, name := range []string{"1f1b", "interleaved-1f1b", "ddp"} {
		shape := graph.Shape{Ranks: 4, Microbatches: 16, Virtual: 1}
		switch name {
		case "interleaved-1f1b":
			shape.Virtual = 2
		case "ddp":
			shape.Ranks = 1
		}
		s, err := schedules.Find(name)
		require.NoError(t, err)
		plain, err := s.Pipeline(shape, nil)
		require.NoError(t, err)
		took := func(p wiring.Pipeline, exchange time.Duration) time.Duration {
			p.Exchanges = nil
			for range p.Placement.Stages() {
				p.Exchanges = append(p.Exchanges, wiring.Exchanges{Forward: []int64{1, 1}, Backward: []int64{1, 1}})
			}
			return ordertest.Relax(t, ordertest.Graph(t, p), func(t *graph.Task) time.Duration {
				switch {
				case t.Kind == graph.AllToAll:
					return exchange
				case t.Kind.Compute():
					return 1
				}
				return 0
			}).End()
		}
		pairs := overlapExperts(t, name, shape)
		require.Equal(t, took(plain, 0), took(pairs, 0), name)
		require.Less(t, 4*(took(pairs, 1)-took(pairs, 0)), took(plain, 1)-took(plain, 0), name)
	}
}

func ExampleSchedule_OverlapExperts() {
	s, _ := schedules.Find("1f1b")
	p, _ := s.Pipeline(graph.Shape{Ranks: 2, Microbatches: 4}, nil)
	p, _ = s.OverlapExperts(p)
	fmt.Print(p.Order)
	// Output:
	// 0F0 0F1 0F2 (0F3;0B0)OVERLAP_F_B 0B1 0B2 0B3
	// 1F0 (1F1;1B0)OVERLAP_F_B (1F2;1B1)OVERLAP_F_B (1F3;1B2)OVERLAP_F_B 1B3
}
