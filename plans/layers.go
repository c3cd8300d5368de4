package plans

import (
	"slices"
	"time"

	"psim/configs"
	"psim/costmodel"
)

// A workKey is what plans have in common whose networks have the same to do for a
// microbatch, however they are cut and ordered.
type layerKey struct {
	tensor, context, expert, expertTensor int
	micro                                 int64
	sequence                              bool
	recompute                             string
}

func layerKeyOf(p *Plan) layerKey {
	return layerKey{p.Tensor, p.Context, p.Expert, p.ExpertTensor, p.Micro, p.Sequence, p.Recompute}
}

// whole finds the network of a plan for a microbatch, however it is cut.
func (s *Space) uncut(p *Plan) (*configs.Cut, error) {
	one := *p
	one.Schedule, one.Stages, one.VirtualStages, one.Microbatches, one.Zero = "ddp", 1, 1, 1, 0
	return s.shared.Cut(func(c *configs.Config) {
		one.divide(s)(c)
		c.Batch.Global = p.Micro * int64(p.Data)
	})
}

// A work is the plans whose networks have the same to do for a microbatch.
type layerGroup struct {
	candidates  []*candidate // a unit each
	timesBefore []passTimes  // of all layers before each, and of all
}

// together lists plans by their work, and those by units.
func (s *search) group(list []Plan) []*layerGroup {
	type workOf struct {
		*Space
		layerKey
	}
	type unitOf struct {
		*Space
		stageKey
	}
	works, units := map[workOf]*layerGroup{}, map[unitOf]*candidate{}
	var all []*layerGroup
	for i := range list {
		p := &s.Points[i]
		p.Plan, p.index = &list[i], i
		unit := unitOf{p.space, p.space.stageKeyOf(p.Plan)}
		c := units[unit]
		if c == nil {
			key := workOf{p.space, layerKeyOf(p.Plan)}
			w := works[key]
			if w == nil {
				w = &layerGroup{}
				works[key], all = w, append(all, w)
			}
			c = &candidate{layers: w}
			units[unit], w.candidates = c, append(w.candidates, c)
		}
		c.points = append(c.points, p)
	}
	return all
}

// bound finds what a rank of every plan has to do on average: all that a microbatch
// needs, so many times, shared by the ranks of a replica. It discards plans whose
// parameters do not fit even if the ranks have equal shares of them.
func (w *layerGroup) bound() {
	p := w.candidates[0].points[0]
	whole, err := p.space.uncut(p.Plan)
	var times []costmodel.LayerTime
	if err == nil {
		times, err = whole.LayerTimes(p.space.ranks(p.Plan))
	}
	if err != nil {
		times = nil // building a plan will say so
	} else {
		w.dropTooLarge(whole)
	}
	var sum passTimes
	var all bounds
	w.timesBefore = []passTimes{sum}
	for _, t := range times {
		sum = passTimes{sum.forward + t.Forward, sum.backward + t.Backward, sum.input + t.Input, sum.weight + t.Weight, 0}
		w.timesBefore = append(w.timesBefore, sum)
		all[wholeOrder], all[splitOrder] = all[wholeOrder]+t.Forward+t.Backward, all[splitOrder]+t.Forward+min(t.Backward, t.Input+t.Weight)
	}
	all[pairedOrder], all[serialOrder] = all[splitOrder], all[wholeOrder]
	for _, c := range w.candidates {
		ranks, times := time.Duration(c.points[0].Stages), time.Duration(c.points[0].Microbatches)
		var share bounds
		for i := range all {
			share[i] = all[i]/ranks*times + all[i]%ranks*times/ranks
		}
		share[serialOrder] = all[serialOrder] * times
		c.raise(share)
		for _, p := range c.points {
			p.Work = p.Bound
		}
	}
}

// fit discards candidates whose parameters do not fit.
func (w *layerGroup) dropTooLarge(whole *configs.Cut) {
	most := whole.Machine.RankMemory()
	w.candidates = slices.DeleteFunc(w.candidates, func(c *candidate) bool {
		p := c.points[0]
		if most == 0 || whole.Least(p.Stages, p.Data, p.Zero) <= most {
			return false
		}
		for _, p := range c.points {
			p.Pruned = Parameters
		}
		return true
	})
}

// passes adds up the layers of stages that have so many each.
func (w *layerGroup) stageTimes(layers []int) []passTimes {
	list, first := make([]passTimes, len(layers)), 0
	for s, n := range layers {
		from, to := &w.timesBefore[first], &w.timesBefore[first+n]
		list[s] = passTimes{to.forward - from.forward, to.backward - from.backward, to.input - from.input, to.weight - from.weight, 0}
		first += n
	}
	return list
}
