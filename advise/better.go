package advise

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"psim"
	"psim/configs"
	"psim/plans"
	"psim/results/judged"
	"psim/results/rankings"
)

// A plan counts as better if its step is shorter by more than leastBetter, and is
// looked for no longer than longestLook.
const (
	leastBetter = 0.01
	longestLook = 30 * time.Second
)

// Better finds the fastest plan that the stack's program offers for the same devices, adds it to a judgment, and
// returns its configuration; nil if the program is not known, or no plan is better. Of the keys in only just those
// values are tried; a key without values keeps its own.
func Better(
	ctx context.Context, p *psim.Prediction, h *judged.Judgment, only map[string][]string,
) (*configs.Config, error) {
	if p.Result.Stack == "" && len(only) == 0 || h.Verdict == judged.Inconsistent ||
		h.Verdict == judged.Incomparable {
		return nil, nil
	}
	q := query(p, only)
	var err error
	if q.Margin, err = p.Config.SearchMargin(); err != nil {
		return nil, err
	}
	look, cancel := context.WithTimeout(ctx, longestLook)
	defer cancel()
	found, err := plans.Search(look, p.Config, q, nil)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && !errors.Is(err, context.DeadlineExceeded), found == nil, len(found.Plans) == 0:
		return nil, nil // there is no other plan, such as for a network that does not divide
	}
	best := found.Plans[0]
	if found.Partial && len(h.Changes) > 0 && h.Changes[0].StepTime < best.StepTime {
		return nil, nil // one change does more than all plans that were looked at in time
	}
	h.Searched = true
	if best.StepTime > (1-leastBetter)*p.Result.StepTime {
		return nil, nil
	}
	c, err := p.Config.With(best.Set...)
	if err != nil {
		return nil, nil // the plan does not go with a setting of the configuration's own
	}
	h.Better = &judged.Better{
		PlanShape: best.Plan, Set: best.Set, StepTime: best.StepTime, Partial: found.Partial,
		Faster: fasterThan(&p.Result, best.StepTime),
	}
	h.BetterMeasured = h.Measured * best.StepTime / p.Result.StepTime
	return c, nil
}

// query asks for the fastest plan, of the keys in only with just those values.
func query(p *psim.Prediction, only map[string][]string) plans.Query {
	q := plans.Query{Devices: p.Devices(), Trainer: cmp.Or(p.Result.Stack, plans.Any), Rows: 1}
	for _, key := range slices.Sorted(maps.Keys(only)) {
		if values := only[key]; values == nil {
			q.Fix = append(q.Fix, key)
		} else {
			q.Vary = append(q.Vary, rankings.Variation{Key: key, Values: values})
		}
	}
	if own := p.Config.Train.OffloadActivations; own > 0 { // also plans that do without it
		q.Vary = append(q.Vary, rankings.Variation{
			Key: "train.offload_activations", Values: []string{strconv.Itoa(own), "0"},
		})
	}
	return q
}
