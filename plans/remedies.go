package plans

import (
	"context"
	"fmt"

	"psim/configs"
	"psim/results"
	"psim/results/rankings"
)

// mostTimes bounds by how many times more devices are tried where nothing fits.
const mostTimes = 64

// Remedies says what would fit where no plan does: the best plan without the margin, with
// any trainer, or without what else the query limits, and on how many times as many
// devices.
func (q Query) Remedies(ctx context.Context, c *configs.Config) ([]results.Remedy, error) {
	var found []results.Remedy
	for _, wider := range q.relaxations() {
		remedy, err := wider.remedy(ctx, c)
		if err != nil {
			return found, err
		}
		if remedy != nil {
			remedy.Flags = wider.flags
			found = append(found, *remedy)
		}
	}
	for times := 2; times <= mostTimes; times *= 2 {
		more := relaxedQuery{q, []string{fmt.Sprintf("--devices %d", q.Devices*times)}}
		more.Devices *= times
		remedy, err := more.remedy(ctx, c)
		if err != nil {
			return found, err
		}
		if remedy != nil {
			remedy.Flags = more.flags
			return append(found, *remedy), nil
		}
	}
	return found, nil
}

// A widened query limits less than another, by some flags.
type relaxedQuery struct {
	Query
	flags []string
}

// wider lists queries for the same devices, each with one limit less.
func (q Query) relaxations() (list []relaxedQuery) {
	add := func(when bool, flag string, change func(*Query)) {
		if when {
			w := relaxedQuery{q, []string{flag}}
			change(&w.Query)
			list = append(list, w)
		}
	}
	add(q.Margin > 0, "--margin 0%", func(q *Query) { q.Margin = 0 })
	add(q.Trainer != "any", "--trainer any", func(q *Query) { q.Trainer = "any" })
	add(q.Schedules != nil, "all --schedules", func(q *Query) { q.Schedules = nil })
	add(q.Fix != nil, "no --fix", func(q *Query) { q.Fix = nil })
	add(q.Vary != nil, "no --vary", func(q *Query) { q.Vary = nil })
	return list
}

// remedy finds the best plan of a query, nil if none fits or there is none at all.
func (q relaxedQuery) remedy(ctx context.Context, c *configs.Config) (*results.Remedy, error) {
	q.Rows, q.Shard, q.Points = 1, rankings.Shard{}, false
	found, err := Search(ctx, c, q.Query, nil)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || len(found.Plans) == 0 {
		return nil, nil // a limit less is no plan more
	}
	best := found.Plans[0]
	return &results.Remedy{Set: best.Set, PeakMemory: best.PeakMemory(), StepTime: best.StepTime, Devices: best.Devices}, nil
}
