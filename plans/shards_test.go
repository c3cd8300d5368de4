package plans

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/configs"
	"psim/results/rankings"
)

// Every plan is in one shard, in the order of the space. No shard has more than twice its share and the other ZeRO
// stages of a plan, and plans whose layers divide alike are together, unless there are more of them than that share.
func TestShardsPartTheSpace(t *testing.T) {
	c, err := configs.Load("gpipe")
	require.NoError(t, err)
	space, err := NewSpace(c, Query{Devices: 8, Trainer: Any, Vary: []rankings.Variation{{Key: "machine.compute.launch", Values: []string{"0us", "1us"}}}})
	require.NoError(t, err)
	index := map[string]int{}
	for i := range space.Plans {
		index[key(&space.Plans[i])] = i
	}
	require.Len(t, index, len(space.Plans))
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.IntRange(1, 20).Draw(t, "of")
		share, all := (len(space.Plans)+of-1)/of, 0
		in, plans := map[layersOf]map[int]bool{}, map[layersOf]int{}
		for n := 1; n <= of; n++ {
			list, last := sharded(space, rankings.Shard{Number: n, Of: of}), -1
			require.LessOrEqual(t, len(list), 2*share+3)
			for i := range list {
				at := index[key(&list[i])]
				require.Greater(t, at, last)
				last = at
				unit := layersOf{list[i].space, layerKeyOf(&list[i])}
				unit.layerKey.micro = 0
				if in[unit] == nil {
					in[unit] = map[int]bool{}
				}
				in[unit][n] = true
				plans[unit]++
			}
			all += len(list)
		}
		require.Equal(t, len(space.Plans), all)
		for unit, shards := range in {
			require.LessOrEqual(t, len(shards), (plans[unit]+share-1)/share)
		}
	})
}

// key is the text of a plan's settings.
func key(p *Plan) (text string) {
	for _, set := range p.Set() {
		text += set + " "
	}
	return text
}

// A space has a plan for every legal value of each dimension after the earlier ones, in this order: those that stems
// put together are those that are chosen one after another.
func TestStems(t *testing.T) {
	var list []Plan
	var choose func(s *Space, i int, p *Plan)
	choose = func(s *Space, i int, p *Plan) {
		if i == len(s.dimensions) {
			plan := *p
			plan.space = s
			list = append(list, plan)
			return
		}
		d := s.dimensions[i]
		for _, v := range s.valuesOf(p, d.key, d.values(s, p)) {
			if assign(d.at(p), v) == nil && d.legal(s, p) {
				choose(s, i+1, p)
			}
		}
	}
	for _, space := range []*Space{
		small(t, Query{Points: true}), small(t, Query{Points: true, Trainer: "torchtitan"}), small(t, Query{Points: true, Trainer: Any}, "model.preset=mixtral-8x7b"),
		small(t, Query{Points: true, Trainer: Any, Vary: []rankings.Variation{{Key: "parallel.zero", Values: []string{"3", "2"}}}}),
	} {
		list = nil
		var p Plan
		p.Context, p.Expert = 1, 1
		choose(space, 0, &p)
		require.NotEmpty(t, list)
		require.True(t, slices.EqualFunc(list, space.Plans, func(a, b Plan) bool { return a.PlanShape == b.PlanShape && a.space == b.space }))
	}
}
