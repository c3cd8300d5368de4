package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"

	"psim/configs"
	"psim/internal/files"
	"psim/reports"
	"psim/reports/figures"
	"psim/reports/picture"
	"psim/results"
	"psim/results/rankings"
)

// marginSet writes the setting of a query's margin.
func marginSet(q Query) string { return fmt.Sprintf("machine.memory_margin=%v", q.Margin) }

// Saved puts a ranking with its points in the form of its files, which says what was asked
// for.
func (r *Answer) Saved(c *configs.Config, q Query, version string) (rankings.SavedPlans, error) {
	if !q.Points || len(r.Points) < r.Space {
		return rankings.SavedPlans{}, errors.New("files of plans need the points of all: set Points in the query")
	}
	return r.PlanRanking.Saved(rankings.PlanSearch{
		Schema: results.Schema, Name: c.Name(), Configuration: c.Fingerprint(), Version: version,
		Devices: q.Devices, Trainer: cmp.Or(q.Trainer, c.Train.Stack), Schedules: q.Schedules, Fix: q.Fix, Vary: q.Vary,
		Margin: q.Margin, Rows: cmp.Or(q.Rows, defaultRows), Capacity: r.Capacity, Shard: q.Shard.String(),
	}, r.Points)
}

// Save writes what a search over plans has found into a folder, with its pictures:
// the step time of the plans over their memory, and the shortest step over two
// dimensions, by default those in which it differs most. It returns the names of the
// files.
func Save(ctx context.Context, s rankings.SavedPlans, folder string, dimensions []string) (names []string, err error) {
	points, err := s.Settled()
	if err != nil {
		return nil, err
	}
	title := fmt.Sprintf("%s on %d devices", s.Name, s.Devices)
	var pictures []files.File
	add := func(name string, draw figures.Picture) {
		pictures = append(pictures, files.File{Path: name, Render: func(w io.Writer) error { return draw(w, picture.PNG) }})
	}
	if f := picture.PointsFigure(title+" · plans", points, s.Capacity, s.Margin); len(f.Plans) > 0 {
		add("pareto.png", func(w io.Writer, format string) error { return picture.Pareto(w, format, f) })
	}
	if draw, err := figures.PlanMap(title+" · step time", points, dimensions); err == nil {
		add("map.png", draw)
	} else if dimensions != nil {
		return nil, err
	}
	return reports.SaveSearch(ctx, s, folder, pictures...)
}

// Holds reports whether the first of some folders is of a search over plans, or
// holds shards of one.
func Holds(folders []string) bool {
	parts, err := rankings.PartFolders("search", folders[:1])
	return err == nil && len(parts) > 0
}

// Merge joins the shards of a search over plans. The best plans are those that one
// search of the whole would have found. A folder is that of a shard, or one that holds
// the folders of shards; if some are missing the error is a *MissingPoints.
func Merge(folders ...string) (rankings.SavedPlans, error) {
	var whole rankings.SavedPlans
	parts, err := rankings.PartFolders("search", folders)
	if err != nil {
		return whole, err
	}
	from, of := map[int]string{}, 1
	for i, folder := range parts {
		s, shard, err := loadShard(folder)
		if err != nil {
			return whole, err
		}
		capacity := s.Capacity // not known where nothing was built
		if s.Capacity = whole.Capacity; i == 0 {
			of, whole.PlanSearch = shard.Of, s.PlanSearch
		}
		switch before, twice := from[shard.Number]; {
		case !reflect.DeepEqual(s.PlanSearch, whole.PlanSearch) || shard.Of != of:
			return whole, fmt.Errorf("%s: is of another search than %s; only shards of one can be merged", folder, parts[0])
		case twice:
			return whole, fmt.Errorf("%s: is shard %d/%d, as %s is", folder, shard.Number, of, before)
		}
		from[shard.Number] = folder
		whole.Capacity = cmp.Or(whole.Capacity, capacity)
		whole.Plans, whole.Points = append(whole.Plans, s.Plans...), append(whole.Points, s.Points...)
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
	return whole, whole.Rank()
}

// loadShard reads a shard, which is 1/1 of a search of the whole.
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
