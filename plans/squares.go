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
	candidate *candidate
	step      float64
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
// follows from the space alone. A shard looks at its share of the squares, whatever plans it has.
func (d *draft) mapSquares(ctx context.Context, space *Space, shard rankings.Shard, found *decisions) error {
	plans := map[[2]string][]Plan{}
	for _, p := range space.Plans {
		at := d.square(p.PlanShape)
		plans[at] = append(plans[at], p)
	}
	squares := slices.SortedFunc(maps.Keys(plans), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	known := map[[2]string]bool{}
	for i := range found.Points {
		if p := &found.Points[i]; p.Fits && !found.slower(p.Bound) {
			known[d.square(p.PlanShape)] = true
		}
	}
	var wanted [][2]string
	for i, at := range squares {
		if shard.Of == 0 && !known[at] || shard.Of > 0 && i%shard.Of == shard.Number-1 {
			wanted = append(wanted, at)
		}
	}
	best, failed := make([]promised, len(wanted)), make([]error, len(wanted))
	var next atomic.Int32
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(wanted)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(wanted) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				best[i], failed[i] = bestPromised(ctx, plans[wanted[i]], d.Map)
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

// mapDimensions returns the dimensions of the map that a query asks for, or those that suit the space.
func mapDimensions(space *Space, q Query) []string {
	if q.Map != nil {
		return q.Map
	}
	return rankings.MapDimensions(func(yield func(rankings.PlanShape) bool) {
		for i := range space.Plans {
			if !yield(space.Plans[i].PlanShape) {
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

// promises sorts the plans of a square by the step that they promise.
func promises(ctx context.Context, list []Plan) (order []promise) {
	s := &search{ctx: ctx, searchOptions: searchOptions{Workers: 1}}
	s.Points = make([]point, len(list))
	s.begin(list)
	for _, c := range s.waiting {
		for _, p := range c.points {
			order = append(order, promise{p, c, promisedStep(p)})
		}
	}
	slices.SortFunc(order, func(a, b promise) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.index, b.index))
	})
	return order
}

// promised is the best that was found in a square: a plan, or none. Then all says that no other fits.
type promised struct {
	*point
	all bool
}

// bestPromised simulates the plans of a square that promise most, and returns the best that fits.
func bestPromised(ctx context.Context, list []Plan, dimensions []string) (best promised, err error) {
	type kind struct {
		schedule       string
		tensor, stages int
	}
	alike, cuts, fit, e := map[kind]int{}, map[*candidate]*stageGroup{}, 0, engine{}
	best.all = true
	for _, p := range promises(ctx, list) {
		k := kind{p.Schedule, p.Tensor, p.Stages}
		switch repeats := !slices.Contains(dimensions, "schedule") && p.space.repeatsEarlier(p.Plan); {
		case fit == squarePlans || ctx.Err() != nil:
			return best, ctx.Err()
		case alike[k] == squareAlike || repeats:
			continue
		case configs.IsSearched(p.Schedule) || cuts[p.candidate] == nil && len(cuts) == squareCuts:
			best.all = false
			continue
		}
		if cuts[p.candidate] == nil {
			cuts[p.candidate] = p.candidate.stageGroup()
		}
		if cuts[p.candidate].pruned != "" {
			continue
		}
		out, pruned, err := e.simulate(p.Plan, cuts[p.candidate])
		if err != nil {
			return best, err
		}
		if p.outcome = out; pruned != "" || !p.Fits {
			continue
		}
		if fit, alike[k] = fit+1, alike[k]+1; best.point == nil || p.before(best.point) < 0 {
			best.point = p.point
		}
	}
	return best, nil
}
