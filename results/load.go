package results

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"psim/internal/files"
	"psim/results/tracecsv"
	"psim/schedules/graph"
)

// Load reads a saved run: its result, by the folder or the result.json in it,
// and its trace, if that is there.
func Load(path string) (Run, error) {
	return files.Steady(FolderOf(path), func() (Run, error) { return load(path) })
}

// FolderOf returns the folder of a result, whether there is one or not.
func FolderOf(path string) string {
	if strings.HasSuffix(path, ".json") {
		return filepath.Dir(path)
	}
	return path
}

func load(path string) (Run, error) {
	r, folder, err := LoadResultFolder(path)
	if err != nil {
		return Run{}, err
	}
	run := Run{Result: r}
	trace, err := files.Read(filepath.Join(folder, "trace.csv"), tracecsv.ReadTraceCSV)
	if os.IsNotExist(err) {
		return run, nil
	}
	if err == nil {
		err = sameRun(path, r, trace)
	}
	if err == nil {
		err = files.Verify(folder, "result.json", "trace.csv")
	}
	if err != nil {
		return run, err
	}
	trace.Graph.Name, trace.Graph.Layered = r.Schedule, r.FullySharded
	if d := r.DataParallel; d > 1 && len(r.Ranks)%d == 0 {
		trace.Graph.Shape.Ranks, trace.Graph.Shape.Replicas = len(r.Ranks)/d, d
	}
	run.Trace = trace
	return run, nil
}

// sameRun refuses a trace that is not the one of a result.
func sameRun(path string, r Result, trace *graph.Trace) error {
	ranks, tasks, end := trace.Graph.Ranks(), trace.Graph.Len(), trace.End().Seconds()
	switch {
	case ranks != len(r.Ranks):
		return fmt.Errorf("%s: trace.csv has %d ranks and result.json %d; they are not of one run", path, ranks, len(r.Ranks))
	case tasks != r.Tasks:
		return fmt.Errorf("%s: trace.csv has %d tasks and result.json %d; they are not of one run", path, tasks, r.Tasks)
	case end != r.ShownTime():
		return fmt.Errorf("%s: the step ends after %g s in trace.csv and %g s in result.json; they are not of one run", path, end, r.ShownTime())
	}
	return nil
}

// LoadResult reads a saved result alone, by the folder or the result.json in it.
func LoadResult(path string) (Result, error) {
	r, _, err := LoadResultFolder(path)
	return r, err
}

// loadResult reads a result by its folder or file and returns the folder.
func LoadResultFolder(path string) (Result, string, error) {
	info, err := os.Stat(path)
	if near := filepath.Join("out", path); err != nil && files.IsFolder(near) { // where psim run writes
		return Result{}, "", fmt.Errorf("%s: %s; did you mean %s?", path, files.Reason(err), near)
	}
	if err != nil {
		return Result{}, "", fmt.Errorf("%s: %s; a result is a folder that psim run or exec has written, or the result.json in it", path, files.Reason(err))
	}
	if info.IsDir() {
		path = filepath.Join(path, "result.json")
	}
	r, err := files.Read(path, ReadResult)
	if os.IsNotExist(err) && files.Exists(filepath.Join(filepath.Dir(path), "sweep.jsonl")) {
		return r, "", fmt.Errorf("%s: holds a sweep, which psim plot sweep and psim plot heatmap take, and no result", filepath.Dir(path))
	}
	if os.IsNotExist(err) {
		return r, "", fmt.Errorf("%s: no such file; a result is a folder that psim run or exec has written", path)
	}
	return r, filepath.Dir(path), err
}

// LoadPair reads two saved runs to compare: those of two paths, or of one the
// measured run and, as a, the prediction that was made for it.
func LoadPair(paths ...string) (a, b Run, err error) {
	if len(paths) == 2 {
		if a, err = Load(paths[0]); err == nil {
			b, err = Load(paths[1])
		}
		return a, b, err
	}
	type pair struct{ a, b Run }
	p, err := files.Steady(FolderOf(paths[0]), func() (p pair, err error) {
		p.a, p.b, err = loadMeasured(paths[0])
		return p, err
	})
	return p.a, p.b, err
}

// loadMeasured reads a measured run and, as a, the prediction that was made for it.
func loadMeasured(path string) (a, b Run, err error) {
	if b, err = Load(path); err != nil {
		return a, b, err
	}
	if b.Result.Kind != Measured {
		return a, b, fmt.Errorf("%s: is a prediction, so there is nothing to hold it against; name two results: psim compare A B", path)
	}
	a, err = loadPrediction(path, b.Result)
	return a, b, err
}

// loadPrediction reads the prediction of a measured result: from the folder
// predicted beside it, or without tasks from the result itself.
func loadPrediction(path string, measured Result) (Run, error) {
	folder := path
	if !files.IsFolder(folder) {
		folder = filepath.Dir(folder)
	}
	folder = filepath.Join(folder, "predicted")
	if !files.IsFolder(folder) {
		if measured.Predicted != nil {
			return Run{Result: *measured.Predicted}, nil
		}
		return Run{}, fmt.Errorf("%s: holds no prediction; name two results: psim compare A B", path)
	}
	run, err := Load(folder)
	if p := measured.Predicted; err == nil && p != nil && p.StepTime != run.Result.StepTime {
		err = fmt.Errorf("%s: is not the prediction of %s, whose result.json holds another one; name two results: psim compare A B", folder, path)
	}
	return run, err
}
