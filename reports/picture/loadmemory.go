package picture

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"psim/internal/files"
	"psim/results"
	"psim/results/tracecsv"
)

// LoadMemory reads the memory curves of a saved run.
func LoadMemory(path string) (MemoryFigure, error) {
	return files.Steady(results.FolderOf(path), func() (MemoryFigure, error) { return loadMemory(path) })
}

func loadMemory(path string) (MemoryFigure, error) {
	r, folder, err := results.LoadResultFolder(path)
	if err != nil {
		return MemoryFigure{}, err
	}
	curves, err := files.Read(filepath.Join(folder, "memory.csv"), tracecsv.ReadMemoryCSV)
	if os.IsNotExist(err) {
		err = fmt.Errorf("%s: the run has no memory.csv, because nothing in it uses memory; add [memory] or use [model]", path)
		if r.UsesMemory() {
			err = fmt.Errorf("%s: the run has no memory.csv, because it would be long; psim run … --trace FILE.json writes it", path)
		}
	} else if err == nil {
		err = files.Verify(folder, "result.json", "memory.csv")
	}
	return MemoryFigure{
		Title: "memory  ·  " + results.Run{Result: r}.Label(), Curves: curves,
		End: time.Duration(r.ShownTime() * float64(time.Second)), Capacity: r.Capacities(), Margin: r.MemoryMargin,
	}, err
}
