// Package plans finds the best plan for training a network on a number of devices.
//
// A [Plan] has one value for every dimension: replicas, tensor-parallel groups, parts of
// sequences, expert groups, stages, microbatches, schedule, recomputation and sharding.
// A [Query] says what may vary, and [Search] answers it in five steps:
//
//	space       all legal plans, as settings over a configuration; dimension.go has
//	            a row for each dimension, rules.go its values and what is legal. If
//	            a search finds no plan, empty.go says why.
//	bounds      a time that no step of a plan is shorter than. There are three bounds,
//	            each tighter and more expensive than the one before: from the work of
//	            the layers (layers.go), from the path through the stages (bound.go),
//	            and from prices of the stages (stages.go). Plans share them, and plans
//	            that cannot fit in memory are discarded on the way (activations.go).
//	queue       plans with the same stages wait together, lowest bound first. The first
//	            entry gets its next bound, or is simulated if it has all of them
//	            (queue.go, search.go). Unless the steps of all are asked for, an outline of
//	            its order comes before, which a plan may be too slow for already (outline.go).
//	simulation  of one plan after another, until the lowest bound exceeds the steps of
//	            the best plans (simulate.go). It ends early if its step is longer.
//	answer      the best plans, as psim.Predict predicts them.
//
// [Answer.Explain] says why the best plan wins, and [Query.Remedies] what would fit if no
// plan does. A search may be split into shards, which [Save] writes. [Merge] joins what they
// decided, and makes the answer of it (merge.go).
//
// [Schedules] is a smaller search: it keeps the division of the network and varies the
// schedule, microbatches and stages per rank ([Combine]).
package plans

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"psim"
	"psim/configs"
	"psim/results"
	"psim/results/rankings"
)

// The reasons why plans are discarded.
const (
	Impossible  = "not possible"
	Parameters  = "parameters, gradients and optimizer do not fit"
	Activations = "even the fewest activations do not fit"
	Slower      = rankings.Slower
	TooLarge    = rankings.TooLarge
	Same        = "the same order as another"
)

// An Answer holds the best plans of a query.
type Answer struct {
	rankings.PlanRanking
	// Capacity is the memory in bytes that a rank may use, less the margin; 0 if it is
	// unlimited or unknown.
	Capacity int64
	// Points lists all plans, decided or not, in the order of the space, if the query asks
	// for them.
	Points []rankings.PlanPoint
	// Map holds the dimensions of the map of the plans, nil if there is none,
	// and Squares the best known plans of its squares in which no simulated plan fits.
	Map     []string
	Squares []rankings.PlanSquare

	limit   time.Duration        // as rankings.PlanSearch has it
	byClass []map[string]float64 // of the best two plans: seconds of the step
}

// Search finds the best plans for a network on a number of devices, over replicas,
// tensor-parallel groups, stages, microbatches, schedules, recomputation, sharding and
// sequence parallelism, whatever values the configuration has. Batch, model, machine and
// optimizer stay. progress, which may be nil, is called from time to time. If the context
// ends, Search returns what it has found so far along with the context's error.
func Search(ctx context.Context, c *configs.Config, q Query, progress func(Progress)) (*Answer, error) {
	if err := q.Shard.Check(); err != nil {
		return nil, err
	}
	if err := rankings.OnceEach(q.Vary); err != nil {
		return nil, err
	}
	space, err := NewSpace(c, q)
	if err != nil {
		return nil, err
	}
	if err := space.checkOffload(); err != nil {
		return nil, err
	}
	d := &draft{config: c, query: q, space: space}
	board, err := newBoard(c, q)
	if err != nil {
		return nil, err
	}
	found, err := decideAll(ctx, space.Plans, searchOptions{
		Rows: cmp.Or(q.Rows, defaultRows), Dropped: space.Dropped, All: q.Points,
		Predict: d.predict, Progress: progress, Board: board,
	})
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err := d.answer(ctx, found); err != nil {
		return nil, err
	}
	return &d.Answer, ctx.Err()
}

// draft is an Answer in the making.
type draft struct {
	Answer
	config *configs.Config
	query  Query
	space  *Space
}

// answer answers the query by what was decided.
func (d *draft) answer(ctx context.Context, found *decisions) error {
	d.count(found)
	if d.query.Points {
		d.Points = listPoints(found, d.query)
		d.Map = mapDimensions(d.space, d.query)
	}
	if d.query.Unpredicted {
		for _, p := range found.Best {
			one := rankings.RankedPlan{Plan: p.PlanShape, Set: p.Set()}
			one.StepTime = p.Step.Seconds()
			d.Plans = append(d.Plans, one)
		}
	} else if err := d.rank(context.WithoutCancel(ctx), found); err != nil {
		return err
	}
	setChances(d.Plans)
	if len(d.Map) == 2 && d.query.Shard.Of == 0 && ctx.Err() == nil {
		if err := d.mapSquares(ctx, found); err != nil {
			return err
		}
	}
	if found.Limit > 0 && !found.slower(found.Limit+1) { // others know better plans
		d.limit = found.Limit
	}
	d.Devices, d.Varied = d.query.Devices, rankings.VariedKeys(d.query.Vary)
	d.WithinNode = d.space.WithinNode
	d.Partial, d.Nothing = ctx.Err() != nil, d.space.WhyEmpty()
	return nil
}

// configOf returns the configuration of a plan.
func (d *draft) configOf(p *Plan) (*configs.Config, error) {
	c, err := d.config.With(p.Set()...)
	if err != nil {
		err = fmt.Errorf("the plan %v: %w", p.Set(), err)
	}
	return c, err
}

// predict predicts a plan as psim.Predict does.
func (d *draft) predict(ctx context.Context, p *Plan) (outcome, *predictedPlan, error) {
	return d.estimate(ctx, p, false)
}

// estimate predicts a plan, and with explain splits its step by class.
func (d *draft) estimate(ctx context.Context, p *Plan, explain bool) (out outcome, r *predictedPlan, err error) {
	c, err := d.configOf(p)
	if err != nil {
		return out, nil, err
	}
	r = &predictedPlan{}
	var e *psim.Prediction
	if explain {
		var made *results.Explanation
		if e, made, err = psim.EstimateExplained(ctx, c); err == nil {
			r.byClass = made.ByClass
		}
	} else {
		e, err = psim.Estimate(ctx, c)
	}
	if err != nil {
		return out, nil, err
	}
	if e.Experiment.Capacity != nil {
		r.capacity = slices.Min(e.Experiment.Capacity)
	}
	r.RankedPlan = rankings.RankedPlan{Result: e.Result, Plan: p.PlanShape, Set: p.Set()}
	out = outcome{Step: e.Summary.StepTime, Peak: e.Result.PeakMemory(), Fits: e.Result.Fits(), Tasks: e.Result.Tasks}
	return out, r, nil
}

// listPoints writes what is known about all plans.
func listPoints(found *decisions, q Query) []rankings.PlanPoint {
	varied, list := q.varied(), make([]rankings.PlanPoint, len(found.Points))
	var last []string // neighbours often have the same settings
	for i := range found.Points {
		p := &found.Points[i]
		if set := p.varied(varied); !slices.Equal(set, last) {
			last = set
		}
		list[i] = rankings.PlanPoint{
			Plan: p.PlanShape, Set: last, Pruned: p.Pruned, Work: p.Work, Bound: p.Bound,
			Simulated: p.Step > 0, StepTime: p.Step, PeakMemory: p.Peak, Fits: p.Fits,
		}
	}
	return list
}

// count counts the plans by what became of them. A plan whose bound is above the step of the last of the best
// plans counts as slower, whatever else is known of it: workers that are ahead of others decide more
// of these. All other plans are decided by every search.
func (d *draft) count(found *decisions) {
	d.Space, d.Gap, d.PrunedBy = len(found.Points)+found.dropped, found.Gap, map[string]int{}
	if found.dropped > 0 {
		d.PrunedBy[Parameters] = found.dropped
	}
	for i := range found.Points {
		switch p := &found.Points[i]; {
		case found.slower(p.Bound):
			d.PrunedBy[Slower]++
		case p.Pruned != "":
			d.PrunedBy[p.Pruned]++
		case p.Step > 0 || p.Late:
			d.Evaluated++
		}
	}
	for _, n := range d.PrunedBy {
		d.Pruned += n
	}
	d.Bounded = d.PrunedBy[Slower]
}

// rank predicts the best plans.
func (d *draft) rank(ctx context.Context, found *decisions) error {
	best := make([]*predictedPlan, len(found.Best))
	failed := make([]error, len(best))
	var next atomic.Int32
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(best)) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(best); i = int(next.Add(1)) - 1 {
				p := found.Best[i]
				if best[i] = found.predicted[p]; best[i] == nil || i < explained {
					best[i], failed[i] = d.verify(ctx, p, i < explained)
				}
			}
		})
	}
	all.Wait()
	if err := first(failed); err != nil {
		return err
	}
	for _, p := range best {
		d.Capacity = cmp.Or(p.capacity, d.Capacity)
		d.Plans = append(d.Plans, p.RankedPlan)
		if p.byClass != nil {
			d.byClass = append(d.byClass, p.byClass)
		}
	}
	return nil
}

// first returns the first error of a list: plans that are alike fail alike.
func first(failed []error) error {
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// A predictedPlan is a ranked plan and the memory that its ranks may use.
type predictedPlan struct {
	rankings.RankedPlan
	capacity int64
	byClass  map[string]float64 // seconds of the step, if they are wanted
}

// explained is the number of best plans that Explain compares.
const explained = 2

// verify predicts one of the best plans as psim.Predict does, and compares.
func (d *draft) verify(ctx context.Context, p *point, explain bool) (*predictedPlan, error) {
	out, r, err := d.estimate(ctx, p.Plan, explain)
	if err == nil && (out.Step != p.Step || out.Fits != p.Fits) {
		err = fmt.Errorf("the search found that the plan %v takes %v, but it takes %v: please report this",
			p.Set(), p.Step, out.Step)
	}
	return r, err
}
