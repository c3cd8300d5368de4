package schedules_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

func TestHanayoOrder(t *testing.T) {
	for _, c := range []struct {
		shape  graph.Shape
		want   string
		places []int32
	}{
		{graph.Shape{Ranks: 2, Microbatches: 2}, `
			0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1
			1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1`, []int32{0, 1, 1, 0}},
		{graph.Shape{Ranks: 2, Microbatches: 2, Virtual: 4}, `
			0F0 0F1 3F0 4F0 3F1 4F1 7F0 7B0 7F1 7B1 4B0 3B0 4B1 3B1 0B0 0B1
			1F0 2F0 1F1 2F1 5F0 6F0 5F1 6F1 6B0 5B0 6B1 5B1 2B0 1B0 2B1 1B1`, []int32{0, 1, 1, 0, 0, 1, 1, 0}},
		{graph.Shape{Ranks: 1, Microbatches: 2}, `0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1`, []int32{0, 0}},
		{graph.Shape{Ranks: 3, Microbatches: 1}, `
			0F0 5F0 5B0 0B0
			1F0 4F0 4B0 1B0
			2F0 3F0 3B0 2B0`, []int32{0, 1, 2, 2, 1, 0}},
	} {
		p := ordertest.Shaped(t, "hanayo", c.shape)
		require.Equal(t, ordertest.Text(c.want), p.Order.String(), "%+v", c.shape)
		require.Equal(t, c.places, p.Placement.First, "%+v", c.shape)
	}
}

// Every stage has a forward and a backward of every microbatch, once, and their
// microbatches go in order; no shape hangs; and rank r holds min((V-1)Q+1+r, VQ)
// activations at most, Q being the microbatches of a unit.
func TestHanayoLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := graph.Shape{
			Ranks: rapid.IntRange(1, 6).Draw(t, "ranks"), Virtual: 2 * rapid.IntRange(1, 3).Draw(t, "waves"),
			Microbatches: rapid.IntRange(1, 15).Draw(t, "microbatches"),
		}
		p := ordertest.Shaped(t, "hanayo", shape)
		count, last := map[order.Action]int{}, map[[2]int32]int32{}
		for _, actions := range p.Order {
			for _, a := range actions {
				count[a]++
				key := [2]int32{a.Stage, int32(a.Kind)}
				require.Equal(t, last[key], a.Microbatch)
				last[key]++
			}
		}
		require.Len(t, count, 2*shape.Stages()*shape.Microbatches)
		q := min(shape.Microbatches, shape.Ranks)
		for r, peak := range ordertest.Peaks(t, p) { // they are of a run, which a deadlock would end
			require.Equal(t, min((shape.Virtual-1)*q+1+r, shape.Virtual*q), peak, "rank %d", r)
		}
	})
}

// With one wave, hanayo is half of Chimera with twice the ranks and microbatches:
// rank r does what Chimera's does, but both ways are the same microbatch's, so
// that its pipeline holds every stage once. It has zbv's placement.
func TestOneWaveIsHalfOfChimera(t *testing.T) {
	for p := 1; p <= 6; p++ {
		for m := 1; m <= 14; m++ {
			waves := ordertest.Shaped(t, "hanayo", graph.Shape{Ranks: p, Microbatches: m})
			folded := ordertest.Shaped(t, "zbv", graph.Shape{Ranks: p, Microbatches: m})
			require.Equal(t, folded.Placement, waves.Placement)
			chimera := ordertest.Order(t, "chimera", 2*p, 2*m)
			for r := range p {
				for i, a := range chimera[r] {
					a.Microbatch %= int32(m)
					require.Equal(t, a, waves.Order[r][i], "P=%d M=%d rank %d", p, m, r)
				}
				require.Len(t, waves.Order[r], len(chimera[r]))
			}
		}
	}
}

func TestHanayoRefuses(t *testing.T) {
	s, err := schedules.Find("hanayo")
	require.NoError(t, err)
	for _, v := range []int{3, 5} {
		require.EqualError(t, s.Check(graph.Shape{Ranks: 2, Microbatches: 2, Virtual: v}), fmt.Sprintf(
			"virtual_stages = %d: a wave of hanayo goes down the ranks and up again, so it takes 2 per wave; the next even numbers are %d and %d", v, v-1, v+1))
	}
	require.EqualError(t, s.Check(graph.Shape{Ranks: 2, Microbatches: 2, Group: 2}), "group = 2: hanayo has no groups of microbatches; remove group")
	_, err = s.Order(graph.Shape{Ranks: 2, Microbatches: 2, Virtual: 2}, []int32{0, 1, 0, 1})
	require.EqualError(t, err, "placement of stage 2 on rank 0: hanayo needs it on rank 1 (gpipe and model-parallel take any placement)")
}
