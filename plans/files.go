package plans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	kept, err := keptOf(c, q)
	if err != nil {
		return rankings.SavedPlans{}, err
	}
	saved, err := r.PlanRanking.Saved(rankings.PlanSearch{
		Schema: results.Schema, Name: c.Name(), Subject: subject(c, q.Devices),
		Configuration: c.Fingerprint(), Version: version,
		Devices: q.Devices, Trainer: cmp.Or(q.Trainer, c.Train.Stack),
		Schedules: q.Schedules, Fix: q.Fix, Vary: q.Vary, Margin: q.Margin,
		Rows: cmp.Or(q.Rows, defaultRows), Capacity: r.Capacity, Map: r.Map,
		Shard: q.Shard.String(), Division: divisionOf(q.Shard), Kept: kept, Limit: r.limit.Nanoseconds(),
	}, r.Points)
	if saved.Squares = r.Squares; kept != nil {
		saved.Capacity = 0 // a merge finds it, where no plan has been predicted
	}
	return saved, err
}

// Save writes the plans of a search into a folder, with a configuration for each and two
// pictures: the step time of plans over their memory, and the shortest step over two
// dimensions, by default those of the search. Of a shard it writes only what Merge needs. It
// returns the names of the files.
func Save(
	ctx context.Context, s rankings.SavedPlans, to files.Folder, dimensions []string,
) (names []string, err error) {
	if s.Shard != "" {
		return reports.SaveSearch(ctx, s, to)
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
	if f := picture.PointsFigure(title, s.Points, s.Capacity, s.Margin); len(f.Plans) > 0 {
		add("pareto.png", func(w io.Writer, format string) error { return picture.Pareto(w, format, f) })
	}
	squares := s.SettledSquares()
	if dimensions == nil {
		dimensions = s.Map
	} else if !slices.Equal(dimensions, s.Map) {
		squares = nil // they are of another map
	}
	if draw, err := figures.PlanMap("Shortest step: "+subject, s.Points, squares, dimensions); err == nil {
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
