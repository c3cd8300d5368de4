package plans

import (
	"iter"
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

// A division holds the plans of a space that differ only in their stages and in the size of their
// microbatches, so that a device holds the same part of every layer's parameters.
type division struct {
	points []*point // until they are grouped
	groups []*layerGroup
}

// A layerGroup holds the plans of a space that share a layerKey.
type layerGroup struct {
	candidates []*candidate // one for each stageKey
	// timesBefore holds the sum of the times of all layers before a layer, and at the end
	// of all layers.
	timesBefore []passTimes
}

// divide sorts plans into divisions.
func (s *search) divide(list []Plan) (all []*division) {
	divisions := map[layersOf]*division{}
	for i := range list {
		p := &s.Points[i]
		p.Plan, p.index = &list[i], i
		k := layersOf{p.space, layerKeyOf(p.Plan)}
		k.layerKey.micro = 0
		d := divisions[k]
		if d == nil {
			d = &division{}
			divisions[k], all = d, append(all, d)
		}
		d.points = append(d.points, p)
	}
	return all
}

// group sorts the plans that have not been discarded into layer groups, and within these into candidates.
func (d *division) group() {
	groups, candidates := map[int64]*layerGroup{}, map[stageKey]*candidate{}
	for _, p := range d.points {
		if p.Pruned != "" {
			continue
		}
		stages := p.space.stageKeyOf(p.Plan)
		c := candidates[stages]
		if c == nil {
			g := groups[p.Micro]
			if g == nil {
				g = &layerGroup{}
				groups[p.Micro], d.groups = g, append(d.groups, g)
			}
			c = &candidate{layers: g}
			candidates[stages], g.candidates = c, append(g.candidates, c)
		}
		c.points = append(c.points, p)
	}
	d.points = nil
}

// candidates yields those that have not been discarded.
func (d *division) candidates() iter.Seq[*candidate] {
	return func(yield func(*candidate) bool) {
		for _, g := range d.groups {
			for _, c := range g.candidates {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// bound discards plans whose parameters do not fit even if all ranks have equal shares of them, and bounds
// the others by their work.
func (d *division) bound() {
	d.dropTooLarge()
	d.group()
	for _, g := range d.groups {
		g.bound()
	}
}

// bound bounds plans by the average work of a rank: the work of all layers for one
// microbatch, times the microbatches, divided by the ranks of a replica.
func (g *layerGroup) bound() {
	p := g.candidates[0].points[0]
	uncut, err := p.space.uncut(p.Plan)
	var times []costmodel.LayerTime
	if err == nil {
		times, err = uncut.LayerTimes(p.space.ranks(p.Plan))
	}
	if err != nil {
		times = nil // the error comes up again where the plan is built
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

// checkOffload refuses activations in the host's memory that no plan can have, undivided as it is easiest.
func (s *Space) checkOffload() error {
	if s.config.Train.OffloadActivations == 0 || len(s.Plans) == 0 {
		return nil
	}
	one := s.Plans[0]
	one.Tensor, one.Context, one.Expert, one.ExpertTensor, one.Data, one.Sequence = 1, 1, 1, 1, 1, false
	_, err := s.uncut(&one)
	return err
}

// dropTooLarge discards plans whose parameters do not fit.
func (d *division) dropTooLarge() {
	least := leastShares{}
	for _, p := range d.points {
		if p.space.drops == nil && least.tooLarge(p.Plan) {
			p.Pruned = Parameters
		}
	}
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
