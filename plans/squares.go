package plans

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"psim/configs"
	"psim/results/rankings"
)

// The effort for a square of the map: how many plans that fit are simulated, how many of them may have
// the same schedule, groups and stages, and how many cuts of the network are tried.
const squarePlans, squareAlike, squareCuts = 6, 2, 400

// A promise is a plan of a square with the step time that it promises.
type promise struct {
	*point
	step float64
}

// promisedStep estimates the step of a plan: its work, and the bubble of a pipeline of such an order.
func promisedStep(p *point) float64 {
	fill := float64(p.Stages-1) / float64(p.Microbatches*max(1, p.VirtualStages))
	switch p.space.orderKinds[p.Schedule] {
	case serialOrder:
		fill = 0
	case splitOrder, pairedOrder:
		fill /= 3 // weight gradients fill the rest
	}
	return float64(p.Work) * (1 + fill)
}

// mapSquares finds a good plan for every square of the map in which no simulated plan fits: the
// best of those that promise most. It proves nothing, but costs little. Which plan it finds
// follows from the space alone: what the search has found out only saves work.
func (d *draft) mapSquares(ctx context.Context, found *decisions) error {
	points, known := map[[2]string][]*point{}, map[[2]string]bool{}
	for i := range found.Points {
		p := &found.Points[i]
		at := d.square(p.PlanShape)
		if list, listed := points[at]; !listed || !p.heavy() {
			points[at] = append(list, p)
		}
		known[at] = known[at] || p.Fits && !found.slower(p.Bound)
	}
	wanted := slices.DeleteFunc(slices.Collect(maps.Keys(points)), func(at [2]string) bool { return known[at] })
	slices.SortFunc(wanted, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	best, failed := make([]promised, len(wanted)), make([]error, len(wanted))
	var next atomic.Int32
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(wanted)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(wanted) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				best[i], failed[i] = bestPromised(ctx, points[wanted[i]], d.Map)
			}
		})
	}
	all.Wait()
	for i, b := range best {
		square := rankings.PlanSquare{Across: wanted[i][0], Up: wanted[i][1]}
		if b.point != nil {
			square.StepTime, square.Set = b.Step.Seconds(), b.Set()
		}
		if b.point != nil || b.all {
			d.Squares = append(d.Squares, square)
		}
	}
	return first(failed)
}

// heavy reports whether the parameters of a plan do not fit even if all ranks have equal shares of them.
func (p *point) heavy() bool { return p.Pruned == Parameters && p.Work == 0 }

// mapDimensions returns the dimensions of the map that a query asks for, or those that suit the space.
func mapDimensions(space *Space, q Query) []string {
	if q.Map != nil {
		return q.Map
	}
	return rankings.MapDimensions(func(yield func(rankings.PlanShape) bool) {
		for p := range space.all() {
			if !yield(p.PlanShape) {
				return
			}
		}
	})
}

// square returns where a plan is on the map.
func (d *draft) square(p rankings.PlanShape) [2]string {
	return [2]string{p.Shown(d.Map[0]), p.Shown(d.Map[1])}
}

// slower reports whether plans of a bound are slower than the last of the best plans.
func (d *decisions) slower(bound time.Duration) bool {
	return len(d.Best) == d.wanted && bound > d.Best[d.wanted-1].Step
}

// promises sorts the plans of a square by the step that they promise, without those that are too heavy.
func promises(list []*point) (order []promise) {
	for _, p := range list {
		if !p.heavy() {
			order = append(order, promise{p, promisedStep(p)})
		}
	}
	slices.SortFunc(order, func(a, b promise) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.index, b.index))
	})
	return order
}

// A cutKey is equal for plans that cut a network into the same stages.
type cutKey struct {
	*Space
	stageKey
}

// A trial simulates plans of a square, and keeps what their cuts share.
type trial struct {
	engine
	cuts map[cutKey]*stageGroup // nil for a cut whose plans the search has decided
}

// promised is the best that was found in a square: a plan, or none. Then all says that no other fits.
type promised struct {
	*point
	all bool
}

// bestPromised simulates the plans of a square that promise most, and returns the best that fits.
func bestPromised(ctx context.Context, list []*point, dimensions []string) (best promised, err error) {
	type kind struct {
		schedule       string
		tensor, stages int
	}
	alike, fit, t := map[kind]int{}, 0, trial{cuts: map[cutKey]*stageGroup{}}
	defer t.forget()
	best.all = true
	for _, p := range promises(list) {
		k, cut := kind{p.Schedule, p.Tensor, p.Stages}, cutKey{p.space, p.space.stageKeyOf(p.Plan)}
		_, known := t.cuts[cut]
		switch repeats := !slices.Contains(dimensions, "schedule") && p.space.repeatsEarlier(p.Plan); {
		case fit == squarePlans || ctx.Err() != nil:
			return best, ctx.Err()
		case alike[k] == squareAlike || repeats:
			continue
		case configs.IsSearched(p.Schedule) || !known && len(t.cuts) == squareCuts:
			best.all = false
			continue
		}
		out, err := t.simulate(p.point, cut)
		if err != nil {
			return best, err
		}
		if !out.Fits {
			continue
		}
		one := *p.point
		one.outcome = out
		if fit, alike[k] = fit+1, alike[k]+1; best.point == nil || one.before(best.point) < 0 {
			best.point = &one
		}
	}
	return best, nil
}

// simulate returns the outcome of a plan, as far as the search does not know it.
func (t *trial) simulate(p *point, cut cutKey) (out outcome, err error) {
	g := t.cuts[cut]
	t.cuts[cut] = g
	switch {
	case p.Step > 0:
		return p.outcome, nil
	case p.Pruned != "" && p.Pruned != Slower && p.Pruned != Same:
		return out, nil
	}
	if g == nil {
		if g = p.stages; g == nil {
			g = newStageGroup(p.Plan)
		}
		t.cuts[cut] = g
	}
	if g.pruned == "" {
		out, _, err = t.engine.simulate(p.Plan, g, 0)
	}
	return out, err
}

// forget frees the memory of the prices.
func (t *trial) forget() {
	for _, g := range t.cuts {
		if g != nil {
			g.forget()
		}
	}
}
