package reports

import (
	"context"
	"io"
	"slices"

	"psim/internal/files"
	"psim/results/rankings"
)

// Save writes plans.json, search.json and points.csv, with pictures beside them, into a
// folder, and returns their names.
func SaveSearch(ctx context.Context, s rankings.SavedPlans, folder string, pictures ...files.File) (names []string, err error) {
	last, err := s.Last()
	if err != nil {
		return nil, err
	}
	var varied []string
	for _, v := range s.Vary {
		varied = append(varied, v.Key)
	}
	to := PlansFolder(folder)
	to.Partial = s.Partial
	return save(ctx, to, append(slices.Clone(pictures), []files.File{
		{Path: "points.csv", Render: func(w io.Writer) error { return rankings.WritePlanPoints(w, s.Points, varied, last) }},
		{Path: "search.json", Render: func(w io.Writer) error { return files.WriteJSON(w, s.PlanSearch) }},
		{Path: "plans.json", Render: func(w io.Writer) error {
			return files.WriteJSON(w, rankings.PlansFile{Plans: s.Plans, Space: s.Space, Gap: s.Gap, Partial: s.Partial})
		}},
	}...))
}

// SweepFolder returns a folder for the files of a sweep.
func SweepFolder(path string) files.Folder {
	return ownFolder(path, "sweep", []string{"sweep.png", "sweep.csv", "sweep.jsonl", "sweep.json"}, rankings.ReadSweepInfo)
}

// Save writes sweep.jsonl, sweep.csv and sweep.json into a folder, beside pictures of
// it, and returns the names of the files.
func SaveSweepFiles(ctx context.Context, s rankings.Sweep, folder string, pictures ...files.File) (names []string, err error) {
	list := append(slices.Clone(pictures), []files.File{
		{Path: "sweep.csv", Render: func(w io.Writer) error { return WriteSweepCSV(w, s) }},
		{Path: "sweep.jsonl", Render: s.WriteLines},
		{Path: "sweep.json", Render: s.SweepInfo.WriteJSON},
	}...)
	return save(ctx, SweepFolder(folder), list)
}
