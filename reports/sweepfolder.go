package reports

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"psim/internal/files"
)

// SweepFolder returns a folder for the files of a sweep.
func SweepFolder(path string) files.Folder {
	return ownFolder(path, "sweep", []string{"sweep.png", "sweep.csv", "sweep.jsonl", "sweep.json"}, ReadSweepInfo)
}

// Save writes sweep.jsonl, sweep.csv and sweep.json into a folder, beside pictures of
// it, and returns the names of the files.
func (s Sweep) Save(ctx context.Context, folder string, pictures ...files.File) (names []string, err error) {
	list := append(slices.Clone(pictures), []files.File{
		{Path: "sweep.csv", Render: s.WriteCSV},
		{Path: "sweep.jsonl", Render: s.writeLines},
		{Path: "sweep.json", Render: s.SweepInfo.writeJSON},
	}...)
	return save(ctx, SweepFolder(folder), list)
}

// LoadSweep reads what Save has written. A folder without a sweep.json is an error
// that os.IsNotExist tells.
func LoadSweep(folder string) (Sweep, error) {
	return files.Steady(folder, func() (Sweep, error) {
		info, err := files.Read(filepath.Join(folder, "sweep.json"), ReadSweepInfo)
		if err != nil {
			return Sweep{}, err
		}
		points, err := files.Read(filepath.Join(folder, "sweep.jsonl"), ReadPoints)
		if os.IsNotExist(err) {
			err = fmt.Errorf("%s: has a sweep.json, but no sweep.jsonl", folder)
		}
		if err == nil {
			err = files.Verify(folder, "sweep.json", "sweep.jsonl")
		}
		return Sweep{info, points}, err
	})
}
