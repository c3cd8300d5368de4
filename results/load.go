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

// Load reads a saved run, given its folder or the result.json in it. It reads the trace, too,
// if the folder has one.
func Load(path string) (Run, error) {
	return files.Steady(folderOf(path), func() (Run, error) { return load(path) })
}

// folderOf returns the folder of a result, whether or not it exists.
func folderOf(path string) string {
	if strings.HasSuffix(path, ".json") {
		return filepath.Dir(path)
	}
	return path
}

func load(path string) (Run, error) {
	r, folder, err := loadResult(path)
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
	trace.Graph.FullySharded = r.FullySharded
	if d := r.DataParallel; d > 1 && len(r.Ranks)%d == 0 {
		trace.Graph.Shape.Ranks, trace.Graph.Shape.Replicas = len(r.Ranks)/d, d
	}
	run.Trace = trace
	return run, nil
}

// sameRun returns an error if a trace does not belong to a result.
func sameRun(path string, r Result, trace *graph.Trace) error {
	ranks, tasks, end := trace.Graph.Ranks(), trace.Graph.Len(), trace.End().Seconds()
	problem := ""
	switch {
	case ranks != len(r.Ranks):
		problem = fmt.Sprintf("trace.csv has %d ranks and result.json %d", ranks, len(r.Ranks))
	case tasks != r.Tasks:
		problem = fmt.Sprintf("trace.csv has %d tasks and result.json %d", tasks, r.Tasks)
	case end != r.TracedStep():
		problem = fmt.Sprintf("the step ends after %g s in trace.csv and %g s in result.json", end, r.TracedStep())
	default:
		return nil
	}
	return fmt.Errorf("%s: %s; they are not of the same run", path, problem)
}

// LoadResult reads a saved result without its trace, given its folder or the result.json in
// it.
func LoadResult(path string) (Result, error) {
	return files.Steady(folderOf(path), func() (Result, error) {
		r, _, err := loadResult(path)
		return r, err
	})
}

// loadResult reads a result, given its folder or file, and returns the folder, too. It refuses one that
// was changed since psim wrote it.
func loadResult(path string) (Result, string, error) {
	info, err := os.Stat(path)
	if near := filepath.Join("out", path); err != nil && files.IsFolder(near) { // where psim run writes
		return Result{}, "", fmt.Errorf("%s: %s; did you mean %s?", path, files.Reason(err), near)
	}
	if err != nil {
		return Result{}, "", fmt.Errorf("%s: %s; a result is a folder that psim run or exec has written, "+
			"or the result.json in it", path, files.Reason(err))
	}
	if info.IsDir() {
		path = filepath.Join(path, "result.json")
	}
	r, err := files.Read(path, ReadResult)
	folder := filepath.Dir(path)
	if err == nil {
		err = files.Verify(folder, filepath.Base(path))
	}
	if !os.IsNotExist(err) {
		return r, folder, err
	}
	if files.Exists(filepath.Join(folder, "sweep.jsonl")) {
		return r, "", fmt.Errorf("%s: holds a sweep rather than a result; "+
			"psim plot sweep and psim plot heatmap take it", folder)
	}
	return r, "", fmt.Errorf("%s: no such file; a result is a folder that psim run or exec has written", path)
}

// LoadMemory reads the result and the memory curves of a saved run.
func LoadMemory(path string) (Result, []tracecsv.MemoryCurve, error) {
	type saved struct {
		result Result
		curves []tracecsv.MemoryCurve
	}
	s, err := files.Steady(folderOf(path), func() (s saved, err error) {
		s.result, s.curves, err = loadMemory(path)
		return s, err
	})
	return s.result, s.curves, err
}

func loadMemory(path string) (Result, []tracecsv.MemoryCurve, error) {
	r, folder, err := loadResult(path)
	if err != nil {
		return r, nil, err
	}
	curves, err := files.Read(filepath.Join(folder, "memory.csv"), tracecsv.ReadMemoryCSV)
	switch {
	case err == nil:
		err = files.Verify(folder, "result.json", "memory.csv")
	case os.IsNotExist(err) && r.UsesMemory():
		err = fmt.Errorf("%s: the run has no memory.csv, because it would be long; "+
			"psim run … --trace FILE.json writes it", path)
	case os.IsNotExist(err):
		err = fmt.Errorf("%s: the run has no memory.csv, because nothing in it uses memory; "+
			"add [memory] or use [model]", path)
	}
	return r, curves, err
}

// LoadPair reads two saved runs to compare. Given one path, b is the measured run and a the
// prediction that was made for it.
func LoadPair(paths ...string) (a, b Run, err error) {
	if len(paths) == 2 {
		if a, err = Load(paths[0]); err == nil {
			b, err = Load(paths[1])
		}
		return a, b, err
	}
	type pair struct{ a, b Run }
	p, err := files.Steady(folderOf(paths[0]), func() (p pair, err error) {
		p.a, p.b, err = loadMeasured(paths[0])
		return p, err
	})
	return p.a, p.b, err
}

// loadMeasured reads a measured run, b, and the prediction that was made for it, a.
func loadMeasured(path string) (a, b Run, err error) {
	if b, err = Load(path); err != nil {
		return a, b, err
	}
	if b.Result.Kind != Measured {
		return a, b, fmt.Errorf("%s: is a prediction, so there is nothing to compare it with; %s", path, nameTwo)
	}
	a, err = loadPrediction(path, b.Result)
	return a, b, err
}

// nameTwo says what to do if a result has no prediction.
const nameTwo = "name two results: psim compare A B"

// loadPrediction reads the prediction of a measured result: from the folder "predicted" in
// the folder of the result, or without tasks from the result itself.
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
		return Run{}, fmt.Errorf("%s: holds no prediction; %s", path, nameTwo)
	}
	run, err := Load(folder)
	if p := measured.Predicted; err == nil && p != nil && p.StepTime != run.Result.StepTime {
		err = fmt.Errorf("%s: is not the prediction of %s, whose result.json holds another one; %s",
			folder, path, nameTwo)
	}
	return run, err
}
