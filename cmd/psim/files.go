package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"psim/reports"
)

// checkFolder checks that files can be written to a folder, and leaves no trace
// of that: where it was not there, it is made only when there are files.
func checkFolder(folder string) error {
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("--out %s: is a file; name a folder", folder)
	}
	undo, err := makeFolder(folder)
	defer undo()
	if err != nil {
		return fmt.Errorf("--out %s: cannot be made: %s", folder, reason(err))
	}
	if err := checkWritable(folder); err != nil {
		return fmt.Errorf("--out %s: cannot be written to: %s", folder, reason(err))
	}
	return nil
}

// checkWritable makes and removes a file in a folder.
func checkWritable(folder string) error {
	probe, err := os.CreateTemp(folder, ".psim-*")
	if err != nil {
		return err
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// makeFolder makes a folder and those above it. undo removes what it has made,
// as far as nothing is in it.
func makeFolder(folder string) (undo func(), err error) {
	var made []string
	for f := filepath.Clean(folder); ; f = filepath.Dir(f) {
		if _, err := os.Lstat(f); err == nil || f == filepath.Dir(f) {
			break
		}
		made = append(made, f)
	}
	undo = func() {
		for _, f := range made {
			os.Remove(f)
		}
	}
	return undo, os.MkdirAll(folder, 0o755)
}

// runFiles are the files that a run may write into its folder.
var runFiles = [...]string{"timeline.png", "timeline.svg", "trace.csv", "memory.png", "memory.csv", "result.json"}

// execOnly are the files that psim exec writes into its folder beside those of
// a run.
var execOnly = []string{"compare.png", "comparison.json", "modes.png", "predicted/trace.csv", "predicted/result.json"}

// removeStale removes what an earlier run left in a folder and this one has
// not written again, so that it does not pass for this one's. earlier is that
// run's result, nil if there was none: then it touches nothing. A run of several
// modes has left a folder for each.
func removeStale(folder string, written []string, earlier *reports.Result) error {
	if earlier == nil {
		return nil
	}
	for _, name := range append(runFiles[:], execOnly...) {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if slices.Contains(written, name) || isFolder(path) {
			continue
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("%s: cannot be removed: %s", path, reason(err))
		}
	}
	os.Remove(filepath.Join(folder, "predicted")) // only if it is empty
	for _, run := range earlier.Runs {
		mode := run.Schedule
		if !slices.Contains(execModes, mode) || slices.Contains(written, mode+"/result.json") {
			continue
		}
		if err := removeStale(filepath.Join(folder, mode), nil, earlierResult(filepath.Join(folder, mode))); err != nil {
			return err
		}
		os.Remove(filepath.Join(folder, mode))
	}
	return nil
}

// foreign returns the name of a file in a folder that a run would replace
// although no run has written it, or nothing.
func foreign(folder string) string {
	if earlierResult(folder) != nil {
		return ""
	}
	return present(folder, runFiles[:])
}

// present returns the first of some names that is a file in a folder, or
// nothing.
func present(folder string, names []string) string {
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(folder, name)); err == nil && !info.IsDir() {
			return name
		}
	}
	return ""
}

// earlierResult is what has been written to a folder; nil if nothing was.
func earlierResult(folder string) *reports.Result {
	if folder == "" {
		return nil
	}
	r, err := readFile(filepath.Join(folder, "result.json"), reports.ReadResult)
	if err != nil {
		return nil
	}
	return &r
}

// A file is one that is to be written.
type file struct {
	path   string
	render func(io.Writer) error
}

// writeFiles writes all files or none: all are rendered into memory, then
// saved under other names, and only when all are saved do they take their
// places, in order. Replacing is one step for each, so no half-written file is
// seen. The given folders are made for them, and are gone again if it fails.
func writeFiles(ctx context.Context, files []file, folders ...string) (err error) {
	for _, folder := range folders {
		undo, problem := makeFolder(folder)
		defer func() {
			if err != nil {
				undo()
			}
		}()
		if problem != nil {
			return fmt.Errorf("%s: cannot be made: %s", folder, reason(problem))
		}
	}
	contents := make([]bytes.Buffer, len(files))
	for i, f := range files {
		if isFolder(f.path) {
			return fmt.Errorf("%s: cannot be written: a folder of that name is in the way", f.path)
		}
		if err := f.render(&contents[i]); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	var temps []string
	defer func() {
		for _, t := range temps {
			os.Remove(t) // nothing is there once it is renamed
		}
	}()
	for i, f := range files {
		temp, err := save(filepath.Dir(f.path), contents[i].Bytes())
		if temp != "" {
			temps = append(temps, temp)
		}
		if err != nil {
			return fmt.Errorf("%s: cannot be written: %s", f.path, reason(err))
		}
	}
	for i, f := range files {
		if err := os.Rename(temps[i], f.path); err != nil {
			return fmt.Errorf("%s: cannot be replaced: %s", f.path, reason(err))
		}
	}
	return nil
}

// save writes a file of a temporary name into a folder. It returns the name
// even if writing fails.
func save(folder string, data []byte) (string, error) {
	temp, err := os.CreateTemp(folder, ".psim-*")
	if err != nil {
		return "", err
	}
	if _, err = temp.Write(data); err == nil {
		err = temp.Chmod(0o644)
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	return temp.Name(), err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// reason is the operating system's, without the path.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err.Error()
	}
	return err.Error()
}
