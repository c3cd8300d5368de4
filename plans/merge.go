package plans

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"psim/configs"
	"psim/results/rankings"
)

// Merge joins the shards of a search over plans. The best plans are the same as those of
// one search over the whole space, and are predicted here. A folder holds one shard, or folders
// of shards. If shards are missing, the error is a *rankings.MissingPoints.
func Merge(ctx context.Context, folders ...string) (rankings.SavedPlans, error) {
	whole, err := join(folders)
	if err != nil {
		return whole, err
	}
	limit := time.Duration(whole.Limit)
	whole.Division, whole.Limit = "", 0
	if err := whole.Rank(); err != nil || whole.Kept == nil {
		return whole, err // shards of older versions have predicted their plans
	}
	return predictMerged(ctx, whole, limit)
}

// join puts the plans and points of shards together.
func join(folders []string) (rankings.SavedPlans, error) {
	whole := rankings.SavedPlans{Plans: []json.RawMessage{}}
	parts, err := rankings.PartFolders("search", folders)
	if err != nil {
		return whole, err
	}
	from, of, least := map[int]string{}, 1, int64(0)
	for i, folder := range parts {
		s, shard, err := loadShard(folder)
		if err != nil {
			return whole, err
		}
		if limit := s.Limit; i == 0 || limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
		s.Limit = 0
		capacity := s.Capacity // 0 if the shard has not built any plan
		if s.Capacity = whole.Capacity; i == 0 {
			of, whole.PlanSearch = shard.Of, s.PlanSearch
		}
		switch before, twice := from[shard.Number]; {
		case (s.Division != whole.Division || (s.Kept == nil) != (whole.Kept == nil)) && shard.Of == of && of > 1:
			return whole, fmt.Errorf("%s: was divided by another version of psim than %s, so that plans would be "+
				"missing; search all shards with one version", folder, parts[0])
		case !reflect.DeepEqual(s.PlanSearch, whole.PlanSearch) || shard.Of != of:
			return whole, fmt.Errorf("%s: belongs to another search than %s; only shards of one search can be merged",
				folder, parts[0])
		case twice:
			return whole, fmt.Errorf("%s: is shard %d/%d, and so is %s", folder, shard.Number, of, before)
		}
		from[shard.Number] = folder
		whole.Capacity = cmp.Or(whole.Capacity, capacity)
		whole.Plans, whole.Points = append(whole.Plans, s.Plans...), appendPoints(whole.Points, s.Points, len(parts))
		whole.Squares = append(whole.Squares, s.Squares...)
		whole.Space += s.Space
	}
	missing := &rankings.MissingPoints{Count: of - len(from), Of: of, Shards: true}
	for n := 1; n <= of && len(missing.Sets) < rankings.MostMissing; n++ {
		if from[n] == "" {
			missing.Sets = append(missing.Sets, []string{rankings.Shard{Number: n, Of: of}.String()})
		}
	}
	if missing.Count > 0 {
		return whole, missing
	}
	whole.Limit = least
	return whole, nil
}

// appendPoints appends the points of one of n shards. Others have about as many, so that there is room for all at once.
func appendPoints(list, more []rankings.PlanPoint, n int) []rankings.PlanPoint {
	if list == nil {
		list = make([]rankings.PlanPoint, 0, n*(len(more)+len(more)/8))
	}
	return append(list, more...)
}

// loadShard reads a shard; a search over the whole space is shard 1/1.
func loadShard(folder string) (s rankings.SavedPlans, shard rankings.Shard, err error) {
	if s, err = rankings.LoadPlans(folder); err != nil {
		return s, shard, err
	}
	if s.Partial || s.Gap > 0 {
		return s, shard, fmt.Errorf("%s: the search was interrupted; finish it first", folder)
	}
	shard = rankings.Shard{Number: 1, Of: 1}
	if s.Shard != "" {
		if shard, err = rankings.ParseShard(s.Shard, nil); err != nil {
			err = fmt.Errorf("%s: search.json: shard %w", folder, err)
		}
	}
	s.Shard = ""
	return s, shard, err
}

// A kept query is what a merge needs of a search besides its other files.
type kept struct {
	Configuration configs.Kept `json:"configuration"`
	Trainer       string       `json:"trainer,omitempty"` // as it was given
}

// keptOf returns what is kept of a search over a shard.
func keptOf(c *configs.Config, q Query) (json.RawMessage, error) {
	if q.Shard.Of == 0 {
		return nil, nil
	}
	configuration, err := c.Keep(extraSettings(q.varied())...)
	if err != nil {
		return nil, err
	}
	return rankings.CompactJSON(kept{configuration, q.Trainer})
}

// predictMerged makes the answer of a whole search from what its shards have decided. They did not look at plans that
// must be slower than a limit.
func predictMerged(ctx context.Context, s rankings.SavedPlans, limit time.Duration) (rankings.SavedPlans, error) {
	var k kept
	if err := json.Unmarshal(s.Kept, &k); err != nil {
		return s, fmt.Errorf("search.json: kept: %w", err)
	}
	c, err := k.Configuration.Config()
	if err != nil {
		return s, err
	}
	q := Query{
		Devices: s.Devices, Trainer: k.Trainer, Schedules: s.Schedules, Fix: s.Fix, Vary: s.Vary, Margin: s.Margin,
		Rows: s.Rows, Points: true, Map: s.Map,
	}
	d := &draft{config: c, query: q}
	if d.space, err = NewSpace(c, q); err != nil {
		return s, err
	}
	found, err := merged(d.space, s, q)
	if err != nil {
		return s, err
	}
	s.Points = nil // there may be millions
	if limit > 0 && !found.slower(limit+1) {
		return s, errOtherSteps
	}
	if err := d.answer(ctx, found); err != nil {
		return s, err
	}
	answer, err := d.Saved(c, q, s.Version)
	if err == nil && answer.Configuration != s.Configuration {
		err = errOtherSpace
	}
	return answer, err
}

// errOtherSpace says that shards do not have the plans of their configuration.
var errOtherSpace = errors.New("the shards have other plans than their configuration has in this version of psim; " +
	"search and merge with one version")

// errOtherSteps says that shards may have left out plans that are among the best.
var errOtherSteps = errors.New("the shards left out plans because of steps that none of them has found; " +
	"remove the file steps-*.json of their folder, and search all shards again")

// merged returns what shards have decided of a space.
func merged(space *Space, s rankings.SavedPlans, q Query) (*decisions, error) {
	found := &decisions{Points: make([]point, len(space.Plans)), wanted: s.Rows}
	for i := range found.Points {
		found.Points[i].Plan, found.Points[i].index = &space.Plans[i], i
	}
	list := listPoints(found, q)
	if len(list) != len(s.Points) {
		return nil, errOtherSpace
	}
	for i, at := range rankings.SettledOrder(list) {
		p, from := &found.Points[at], &s.Points[i]
		same := slices.Equal(from.Set, list[at].Set) || strings.Join(from.Set, " ") == strings.Join(list[at].Set, " ")
		if from.Plan != p.PlanShape || !same {
			return nil, errOtherSpace
		}
		p.Pruned, p.Work, p.Bound = from.Pruned, from.Work, from.Bound
		if from.Simulated {
			p.outcome = outcome{Step: from.StepTime, Peak: from.PeakMemory, Fits: from.Fits}
		}
		if p.Fits {
			found.Best = append(found.Best, p)
		}
	}
	slices.SortFunc(found.Best, (*point).before)
	found.Best = found.Best[:min(s.Rows, len(found.Best))]
	return found, nil
}
