package plans

import (
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel"
)

// A layerKey is equal for plans whose devices do the same work for a microbatch in every
// layer, however the network is cut into stages and ordered.
type layerKey struct {
	tensor, context, expert, expertTensor int
	micro                                 int64
	sequence                              bool
	recompute                             string
}

func layerKeyOf(p *Plan) layerKey {
	return layerKey{p.Tensor, p.Context, p.Expert, p.ExpertTensor, p.Micro, p.Sequence, p.Recompute}
}

// layersOf is equal for plans of one space with equal layerKeys.
type layersOf struct {
	*Space
	layerKey
}

// A layerGroup holds the plans of a space that share a layerKey.
type layerGroup struct {
	candidates []*candidate // one for each stageKey
	// timesBefore holds the sum of the times of all layers before a layer, and at the end
	// of all layers.
	timesBefore []passTimes
}

// group sorts plans into layer groups, and within these into candidates.
func (s *search) group(list []Plan) []*layerGroup {
	type stagesOf struct {
		*Space
		stageKey
	}
	groups, candidates := map[layersOf]*layerGroup{}, map[stagesOf]*candidate{}
	var all []*layerGroup
	for i := range list {
		p := &s.Points[i]
		p.Plan, p.index = &list[i], i
		stages := stagesOf{p.space, p.space.stageKeyOf(p.Plan)}
		c := candidates[stages]
		if c == nil {
			layers := layersOf{p.space, layerKeyOf(p.Plan)}
			g := groups[layers]
			if g == nil {
				g = &layerGroup{}
				groups[layers], all = g, append(all, g)
			}
			c = &candidate{layers: g}
			candidates[stages], g.candidates = c, append(g.candidates, c)
		}
		c.points = append(c.points, p)
	}
	return all
}

// bound bounds plans by the average work of a rank: the work of all layers for one
// microbatch, times the microbatches, divided by the ranks of a replica. It discards plans
// whose parameters do not fit even if all ranks have equal shares of them.
func (g *layerGroup) bound() {
	p := g.candidates[0].points[0]
	uncut, err := p.space.uncut(p.Plan)
	var times []costmodel.LayerTime
	if err == nil {
		times, err = uncut.LayerTimes(p.space.ranks(p.Plan))
	}
	if err != nil {
		times = nil // the error comes up again where the plan is built
	} else {
		g.dropTooLarge(uncut)
	}
	all := g.addTimes(times)
	for _, c := range g.candidates {
		ranks, microbatches := time.Duration(c.points[0].Stages), time.Duration(c.points[0].Microbatches)
		var share bounds
		for i := range all {
			share[i] = all[i]/ranks*microbatches + all[i]%ranks*microbatches/ranks
		}
		share[serialOrder] = all[serialOrder] * microbatches
		c.raise(share)
		for _, p := range c.points {
			p.Work = p.Bound
		}
	}
}

// addTimes fills timesBefore, and returns the time of all layers for one microbatch.
func (g *layerGroup) addTimes(times []costmodel.LayerTime) (all bounds) {
	var sum passTimes
	g.timesBefore = []passTimes{sum}
	for _, t := range times {
		sum.forward += t.Forward
		sum.backward += t.Backward
		sum.input += t.Input
		sum.weight += t.Weight
		g.timesBefore = append(g.timesBefore, sum)
		all[wholeOrder] += t.Forward + t.Backward
		all[splitOrder] += t.Forward + min(t.Backward, t.Input+t.Weight)
	}
	all[pairedOrder], all[serialOrder] = all[splitOrder], all[wholeOrder]
	return all
}

// uncut returns the network of a plan for one microbatch, as a single stage.
func (s *Space) uncut(p *Plan) (*configs.Cut, error) {
	one := *p
	one.Schedule, one.Stages, one.VirtualStages, one.Microbatches, one.Zero = "ddp", 1, 1, 1, 0
	return s.shared.Cut(func(c *configs.Config) {
		one.divide(s)(c)
		c.Batch.Global = p.Micro * int64(p.Data)
	})
}

// dropTooLarge discards candidates whose parameters do not fit.
func (g *layerGroup) dropTooLarge(uncut *configs.Cut) {
	capacity := uncut.Machine.RankMemory()
	g.candidates = slices.DeleteFunc(g.candidates, func(c *candidate) bool {
		p := c.points[0]
		if capacity == 0 || uncut.Least(p.Stages, p.Data, p.Zero) <= capacity {
			return false
		}
		for _, p := range c.points {
			p.Pruned = Parameters
		}
		return true
	})
}

// stageTimes adds up the times of the layers of every stage; layers holds their numbers.
func (g *layerGroup) stageTimes(layers []int) []passTimes {
	list, first := make([]passTimes, len(layers)), 0
	for s, n := range layers {
		from, to := &g.timesBefore[first], &g.timesBefore[first+n]
		list[s] = passTimes{
			forward: to.forward - from.forward, backward: to.backward - from.backward,
			input: to.input - from.input, weight: to.weight - from.weight,
		}
		first += n
	}
	return list
}
