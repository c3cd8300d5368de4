package plans

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"psim/configs"
	"psim/results"
	"psim/results/rankings"
)

// mostTimes bounds the factor by which Remedies increases the devices.
const mostTimes = 64

// Remedies finds out what would fit if no plan of the query does: without the margin, with
// any trainer, without each other limit of the query, in half the precision, and on more devices. It
// returns the best plan of each, and last those that leave too little of the memory free.
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
	if half, set := q.narrower(c); half != nil {
		remedy, err := relaxedQuery{Query: q}.remedy(ctx, half)
		if err != nil {
			return found, err
		}
		if remedy != nil {
			remedy.Flags, remedy.Set = []string{"--set " + set}, append([]string{set}, remedy.Set...)
			found = append(found, *remedy)
		}
	}
	adapted, err := q.adapted(ctx, c)
	if err != nil {
		return found, err
	}
	if adapted != nil {
		found = append(found, *adapted)
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
			found = append(found, *remedy)
			break
		}
	}
	return closeLast(found), nil
}

// closeLast moves remedies that are close behind those that fit.
func closeLast(found []results.Remedy) []results.Remedy {
	slices.SortStableFunc(found, func(a, b results.Remedy) int {
		switch {
		case a.Close == b.Close:
			return 0
		case a.Close:
			return 1
		}
		return -1
	})
	return found
}

// narrower returns a configuration in half the precision and the setting that asks for it, or nil
// if its device does not compute faster in one, or if the query asks for precisions.
func (q Query) narrower(c *configs.Config) (half *configs.Config, set string) {
	const key = "train.precision"
	machine, err := c.ReadMachine()
	p, asked := c.Train.Precision, q.varied()[key] != nil || slices.Contains(q.Fix, key)
	if err != nil || asked || p != "" && p != "fp32" {
		return nil, ""
	}
	for _, precision := range []string{"bf16", "fp16"} {
		set = key + "=" + precision
		half, err := c.With(set)
		if err == nil && machine.Device.PeakIn(precision) > machine.Device.PeakIn("fp32") {
			return half, set
		}
	}
	return nil, ""
}

// shortest is the least number of tokens of a sample that adapted tries.
const shortest = 512

// adapted returns the best plan that trains adapters alone, of a network that was named without a plan: LoRA,
// else QLoRA, and where neither fits the same without the margin, and then with samples of half as many tokens.
func (q Query) adapted(ctx context.Context, c *configs.Config) (*results.Remedy, error) {
	t := c.Train
	if c.HasPlan() || !c.Model.Transformer() || t.Adapts() || t.Frozen != "" || t.Base() == "fp32" {
		return nil, nil
	}
	built, err := c.Build()
	if err != nil {
		return nil, nil
	}
	own := built.Network.TokensPerSample
	for length := own; length >= min(own, shortest); length /= 2 {
		for _, margin := range slices.Compact([]float64{q.Margin, 0}) {
			for _, sets := range adapters() {
				if length < own {
					sets = append(sets, fmt.Sprintf("model.sequence_length=%d", length))
				}
				remedy, err := q.with(ctx, c, sets, margin)
				if remedy != nil || err != nil {
					return remedy, err
				}
			}
		}
	}
	return nil, nil
}

// adapters lists the ways to train adapters alone, the one that takes least memory last. All go through the
// logits in chunks.
func adapters() [][]string {
	const chunked = "model.loss=chunked"
	return [][]string{
		{chunked, "train.adapter.kind=lora"}, {chunked, "train.adapter.kind=qlora"},
		{chunked, "train.adapter.kind=qlora", "train.adapter.double_quant=true"},
	}
}

// with returns the best plan with further settings, or nil if they are not legal or none fits.
func (q Query) with(ctx context.Context, c *configs.Config, sets []string, margin float64) (*results.Remedy, error) {
	next, err := c.With(sets...)
	if err != nil {
		return nil, nil
	}
	flags := []string{"--set " + strings.Join(sets, " --set ")}
	if margin != q.Margin {
		flags, q.Margin = append(flags, fmt.Sprintf("--margin %v%%", 100*margin)), margin
	}
	remedy, err := relaxedQuery{Query: q}.remedy(ctx, next)
	if remedy != nil {
		remedy.Flags, remedy.Set = flags, slices.Concat(sets, remedy.Set)
	}
	return remedy, err
}

// A relaxedQuery is a query with one limit less, and the flags that relax it.
type relaxedQuery struct {
	Query
	flags []string
}

// relaxations lists queries for the same devices, each with one limit less.
func (q Query) relaxations() (list []relaxedQuery) {
	add := func(when bool, flag string, change func(*Query)) {
		if when {
			w := relaxedQuery{q, []string{flag}}
			change(&w.Query)
			list = append(list, w)
		}
	}
	add(q.Margin > 0, "--margin 0%", func(q *Query) { q.Margin = 0 })
	add(q.Trainer != Any, "--trainer any", func(q *Query) { q.Trainer = Any })
	add(q.Schedules != nil, "all --schedules", func(q *Query) { q.Schedules = nil })
	add(q.Fix != nil, "no --fix", func(q *Query) { q.Fix = nil })
	add(q.Vary != nil, "no --vary", func(q *Query) { q.Vary = nil })
	return list
}

// remedy returns the best plan of a query, or nil if none fits.
func (q relaxedQuery) remedy(ctx context.Context, c *configs.Config) (*results.Remedy, error) {
	q.Rows, q.Shard, q.Points = 1, rankings.Shard{}, false
	found, err := Search(ctx, c, q.Query, nil)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil || len(found.Plans) == 0 {
		return nil, nil // relaxing this limit does not help
	}
	best := found.Plans[0]
	return best.Remedy(best.Set), nil
}
