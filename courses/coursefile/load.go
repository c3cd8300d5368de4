package coursefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"psim/internal/files"
	"psim/results"
)

// epochName matches the names of homework 4's files of an epoch.
var epochName = regexp.MustCompile(`^rank(\d{1,5})_results_epoch(\d{1,6})\.json$`)

// A SavedRun is a result that was read from a file, and what to call it.
type SavedRun struct {
	Label, Path string
	Run         results.Run
}

// Load reads the results in a file or folder of a course's scripts. It returns no results if
// the path is something else, such as a result of psim, or does not exist.
func Load(path string) ([]SavedRun, error) {
	if !files.IsFolder(path) {
		return loadFile(path)
	}
	if files.Exists(filepath.Join(path, "result.json")) || files.Exists(filepath.Join(path, "sweep.jsonl")) {
		return nil, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, files.Reason(err))
	}
	var list []SavedRun
	epochs := false
	for _, e := range entries {
		name := e.Name()
		if epochName.MatchString(name) {
			if epochs {
				continue // all of them at once
			}
			epochs = true
		} else if !statsName.MatchString(name) && name != "performance_summary.json" {
			continue
		}
		found, err := loadFile(filepath.Join(path, name))
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// loadFile reads a file. A file of an epoch is read with the others in its folder.
func loadFile(path string) ([]SavedRun, error) {
	name := filepath.Base(path)
	if epochName.MatchString(name) {
		folder := filepath.Dir(path)
		h, err := loadEpochs(folder)
		if err != nil {
			return nil, err
		}
		run := results.Run{Result: h.result(path)}
		if data, err := os.ReadFile(path); err == nil && predicts(data) {
			run.Result.Kind = results.Predicted
		}
		return []SavedRun{{filepath.Base(folder), path, run}}, nil
	}
	if name == "result.json" || strings.HasSuffix(name, ".jsonl") || !files.Exists(path) {
		return nil, nil
	}
	runs, err := files.Read(path, func(r io.Reader) ([]results.Run, error) { return read(path, r) })
	var list []SavedRun
	for _, run := range runs {
		f := SavedRun{strings.TrimSuffix(name, filepath.Ext(name)), path, run}
		if len(runs) > 1 {
			f.Label = fmt.Sprintf("%s=%d", modeOf(run.Result).Name, run.Result.Devices)
			if run.Result.Name == gpipeName {
				f.Label = "gpipe" // as the file has it: pipeline=2 is the homework's own
			}
		}
		list = append(list, f)
	}
	return list, err
}

// read reads a file of at most 1 GiB.
func read(path string, r io.Reader) ([]results.Run, error) {
	const limit = 1 << 30
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil || len(data) > limit {
		return nil, err // psim's own reader says what is wrong
	}
	return Read(path, data)
}

// Read reads the results in a file of a course's scripts. The name of the file says what it
// is of, because its contents do not. Read returns no results if it is something else.
func Read(path string, data []byte) ([]results.Run, error) {
	name := filepath.Base(path)
	var runs []results.Run
	if m := statsName.FindStringSubmatch(name); m != nil {
		run, err := readStats(named(m[1]), data)
		if err != nil {
			return nil, err
		}
		run.Result.Source = path
		runs = append(runs, run)
	} else {
		list, err := readHomework(path, data)
		if err != nil {
			return nil, err
		}
		for _, h := range list {
			runs = append(runs, results.Run{Result: h.result(path)})
		}
	}
	if predicts(data) {
		for i := range runs {
			runs[i].Result.Kind = results.Predicted
		}
	}
	return runs, nil
}

// predicts reports whether psim reproduce has noted in a file that its numbers are
// predicted. Numbers of the courses' own scripts are measured.
func predicts(data []byte) bool {
	var x struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(data, &x) == nil && x.Kind == results.Predicted
}

// readHomework reads a file of homework 4 or 5: an epoch, a summary or a log.
func readHomework(path string, data []byte) ([]homework, error) {
	name := filepath.Base(path)
	if epochName.MatchString(name) {
		h := homework{Mode: named("ddp")}
		line, err := readEpoch(name, data)
		if err == nil {
			err = h.take([]epochLine{line})
		}
		return []homework{h}, err
	}
	if trimmed := bytes.TrimSpace(data); len(trimmed) == 0 || bytes.IndexByte(data, 0) >= 0 {
		return nil, nil
	} else if trimmed[0] != '{' {
		log := slices.Contains([]string{".log", ".txt", ".out"}, filepath.Ext(name))
		if log || epochForm.Match(data) || meanForm.Match(data) {
			return readLog(path, data)
		}
		return nil, nil
	}
	var keys map[string]json.RawMessage
	switch json.Unmarshal(data, &keys); {
	case name == "performance_summary.json":
		return readSummary(data)
	case keys["kind"] != nil:
		return nil, nil
	case keys["pipeline_parallel"] != nil:
		return readSummary(data)
	case keys["num_workers"] != nil:
		return nil, errors.New("is a file of CS1390's train.py that does not say of which mode; " +
			"name it stats_ddp4.json, or with fsdp, model or pipeline and the number of workers")
	case keys["training_time"] != nil:
		return nil, errors.New("is homework 4's file of an epoch that does not say of which rank; " +
			"name it rank0_results_epoch0.json, or with its rank and epoch")
	}
	return nil, nil
}

// readEpoch reads what run_data_parallel.py has saved for an epoch.
func readEpoch(name string, data []byte) (l epochLine, err error) {
	var e epoch
	if err := decode(data, &e); err != nil {
		return l, err
	}
	if e.Time == nil || e.Tokens == nil {
		return l, errors.New("training_time or tokens_per_sec is missing; run_data_parallel.py saves both")
	}
	m := epochName.FindStringSubmatch(name)
	l.rank, _ = strconv.Atoi(m[1])
	l.index, _ = strconv.Atoi(m[2])
	l.seconds, l.tokens, l.loss = *e.Time, *e.Tokens, e.Loss
	return l, nil
}

// loadEpochs reads all epochs of a folder.
func loadEpochs(folder string) (homework, error) {
	h := homework{Mode: named("ddp")}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return h, fmt.Errorf("%s: %s", folder, files.Reason(err))
	}
	var lines []epochLine
	for _, e := range entries {
		if !epochName.MatchString(e.Name()) {
			continue
		}
		line, err := files.Read(filepath.Join(folder, e.Name()), func(r io.Reader) (l epochLine, err error) {
			data, err := io.ReadAll(io.LimitReader(r, 1<<20))
			if err != nil {
				return l, err
			}
			return readEpoch(e.Name(), data)
		})
		if err != nil {
			return h, err
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return h, fmt.Errorf("%s: holds no rank0_results_epoch0.json", folder)
	}
	if err := h.take(lines); err != nil {
		return h, fmt.Errorf("%s: %w", folder, err)
	}
	return h, nil
}

// LoadRun reads a result of psim or of a course's scripts.
func LoadRun(path string) (results.Run, error) {
	list, err := Load(path)
	switch {
	case err != nil:
		return results.Run{}, err
	case len(list) == 0:
		return results.Load(path)
	case len(list) == 1:
		return list[0].Run, nil
	}
	var names []string
	for _, f := range list {
		names = append(names, f.Label)
	}
	return results.Run{}, fmt.Errorf("%s: holds %d results (%s); name a file that holds one",
		path, len(list), strings.Join(names, ", "))
}

// LoadMeasured reads a measured result and its prediction. The result must be one of psim,
// because a course's scripts predict nothing.
func LoadMeasured(path string) (predicted, measured results.Run, err error) {
	list, err := Load(path)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%s: is of a course's scripts, which predict nothing; "+
			"name two results: psim compare A B", path)
	}
	if err != nil {
		return predicted, measured, err
	}
	return results.LoadPair(path)
}
