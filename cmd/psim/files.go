package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"psim/reports"
)

// prepareFolder makes a folder and checks that files can be written to it.
func prepareFolder(folder string) error {
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("--out %s: is a file; name a folder", folder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("--out %s: cannot be made: %s", folder, reason(err))
	}
	probe, err := os.CreateTemp(folder, ".psim-*")
	if err != nil {
		return fmt.Errorf("--out %s: cannot be written to: %s", folder, reason(err))
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// runFiles are the files that a run may write into its folder, the result
// first: without it the others do not count as a run's.
var runFiles = [...]string{"result.json", "timeline.png", "timeline.svg", "trace.csv", "memory.png", "memory.csv"}

// removeStale removes what an earlier run left in a folder and this one will
// not write again, so that it does not pass for this one's, and its result.
// In a folder without a result it touches nothing.
func removeStale(folder string, written []string) error {
	if _, err := readFile(filepath.Join(folder, "result.json"), reports.ReadResult); err != nil {
		return nil
	}
	for _, name := range runFiles {
		if slices.Contains(written, name) && name != "result.json" {
			continue
		}
		path := filepath.Join(folder, name)
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("%s: cannot be replaced: %s", path, reason(err))
		}
	}
	return nil
}

// writeFile renders into memory, then replaces the file in one step, so that
// no half-written file is ever seen.
func writeFile(path string, f func(io.Writer) error) error {
	data, err := render(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".psim-*")
	if err != nil {
		return fmt.Errorf("%s: cannot be written: %s", path, reason(err))
	}
	defer os.Remove(temp.Name()) // does nothing once renamed
	if _, err = temp.Write(data); err == nil {
		err = temp.Chmod(0o644)
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("%s: cannot be written: %s", path, reason(err))
	}
	return nil
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
