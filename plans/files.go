package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"psim/configs"
	"psim/internal/files"
	"psim/internal/units"
	"psim/reports"
	"psim/reports/figures"
	"psim/reports/picture"
	"psim/reports/titles"
	"psim/results"
	"psim/results/rankings"
)

// marginSet writes the setting of a query's margin.
func marginSet(q Query) string { return fmt.Sprintf("machine.memory_margin=%v", q.Margin) }

// Saved returns the answer with its points and its query in the form of its files.
func (r *Answer) Saved(c *configs.Config, q Query, version string) (rankings.SavedPlans, error) {
	if !q.Points || len(r.Points) < r.Space {
		return rankings.SavedPlans{}, errors.New("saving plans needs all points: set Points in the query")
	}
	saved, err := r.PlanRanking.Saved(rankings.PlanSearch{
		Schema: results.Schema, Name: c.Name(), Subject: subject(c, q.Devices),
		Configuration: c.Fingerprint(), Version: version,
		Devices: q.Devices, Trainer: cmp.Or(q.Trainer, c.Train.Stack),
		Schedules: q.Schedules, Fix: q.Fix, Vary: q.Vary, Margin: q.Margin,
		Rows: cmp.Or(q.Rows, defaultRows), Capacity: r.Capacity, Map: r.Map,
		Shard: q.Shard.String(), Division: divisionOf(q.Shard),
	}, r.Points)
	saved.Squares = r.Squares
	return saved, err
}

// Save writes the plans of a search into a folder, with a configuration for each and two
// pictures: the step time of plans over their memory, and the shortest step over two
// dimensions, by default those of the search. It returns the names of the files.
func Save(
	ctx context.Context, s rankings.SavedPlans, to files.Folder, dimensions []string,
) (names []string, err error) {
	points, err := s.Settled()
	if err != nil {
		return nil, err
	}
	subject, err := savedSubject(s)
	if err != nil {
		return nil, err
	}
	var pictures []files.File
	add := func(name string, draw figures.Picture) {
		render := func(w io.Writer) error { return draw(w, picture.PNG) }
		pictures = append(pictures, files.File{Path: name, Render: render})
	}
	title := "Plans by step time and memory: " + subject
	if f := picture.PointsFigure(title, points, s.Capacity, s.Margin); len(f.Plans) > 0 {
		add("pareto.png", func(w io.Writer, format string) error { return picture.Pareto(w, format, f) })
	}
	squares, err := s.SettledSquares()
	if err != nil {
		return nil, err
	}
	if dimensions == nil {
		dimensions = s.Map
	} else if !slices.Equal(dimensions, s.Map) {
		squares = nil // they are of another map
	}
	if draw, err := figures.PlanMap("Shortest step: "+subject, points, squares, dimensions); err == nil {
		add("map.png", draw)
	} else if !errors.As(err, new(figures.Nothing)) {
		return nil, err
	}
	ranking, err := s.Ranking()
	if err != nil {
		return nil, err
	}
	for i, plan := range ranking.Plans {
		pictures = append(pictures, planFile(i+1, fmt.Sprintf("%s on %d devices", s.Name, s.Devices), plan.Result))
	}
	return reports.SaveSearch(ctx, s, to, pictures...)
}

// savedSubject names the model and the devices of a search.
func savedSubject(s rankings.SavedPlans) (string, error) {
	ranking, err := s.Ranking()
	if err != nil || len(ranking.Plans) == 0 {
		return cmp.Or(s.Subject, units.Plural(s.Devices, "device")), err
	}
	return titles.Subject(ranking.Plans[0].Result), nil
}

// subject names the model of a configuration and a number of its devices, as results name them.
func subject(c *configs.Config, devices int) string {
	r := results.Result{Devices: devices}
	if machine, err := c.ReadMachine(); err == nil {
		r.Device = machine.Device.Name
	}
	if model, err := c.ReadModel(); err == nil {
		if n, err := model.Network(); err == nil {
			r.Parameters, r.Config = n.Parameters(), map[string]any{"model": map[string]any{"preset": model.Preset}}
		}
	}
	return titles.Subject(r)
}

// planFile returns the file of a plan, which psim run takes.
func planFile(n int, of string, r results.Result) files.File {
	comment := []string{
		fmt.Sprintf("This is plan %d that psim search found for %s.", n, of),
		fmt.Sprintf("A step is predicted to take %s; psim run %s predicts it again.",
			units.FormatSeconds(r.StepTime), reports.PlanFile(n)),
	}
	render := func(w io.Writer) error { return configs.WriteObject(w, comment, r.Config) }
	return files.File{Path: reports.PlanFile(n), Render: render}
}

// Holds reports whether the first of some folders holds a search over plans, or its
// shards.
func Holds(folders []string) bool {
	parts, err := rankings.PartFolders("search", folders[:1])
	return err == nil && len(parts) > 0
}

// Merge joins the shards of a search over plans. The best plans are the same as those of
// one search over the whole space. A folder holds one shard, or folders of shards. If
// shards are missing, the error is a *rankings.MissingPoints.
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
		capacity := s.Capacity // 0 if the shard has not built any plan
		if s.Capacity = whole.Capacity; i == 0 {
			of, whole.PlanSearch = shard.Of, s.PlanSearch
		}
		switch before, twice := from[shard.Number]; {
		case s.Division != whole.Division && shard.Of == of && of > 1:
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
		whole.Plans, whole.Points = append(whole.Plans, s.Plans...), append(whole.Points, s.Points...)
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
	whole.Division = ""
	return whole, whole.Rank()
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
