package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// random matches the rest of the name, after the prefix, of folders that psim makes.
var random = regexp.MustCompile(`^[0-9]+(-old)?$`)

// recover cleans up after runs that were killed, next to the folder and in it. No other process may
// be writing meanwhile.
func (f Folder) recover() {
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil {
		return
	}
	for _, entry := range entries {
		if rest, ok := strings.CutPrefix(entry.Name(), f.prefix()); ok && entry.IsDir() && random.MatchString(rest) {
			f.clean(filepath.Join(filepath.Dir(f.Path), entry.Name()))
		}
	}
}

// clean removes a folder that psim made to replace f, or that was f before it was replaced. It removes
// the files that psim listed there, and links to files of f. It moves other files to f, since
// somebody else put them there meanwhile.
func (f Folder) clean(folder string) {
	owners := f.owners(folder)
	var below []string
	filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		name, problem := filepath.Rel(folder, path)
		switch {
		case err != nil || problem != nil:
			return nil
		case entry.IsDir():
			below = append(below, path)
			return nil
		case name == Manifest:
			return nil
		}
		f.drop(path, filepath.Join(f.Path, name), owners[filepath.ToSlash(name)] == f.Owner)
		return nil
	})
	slices.Reverse(below)
	for _, path := range below {
		if path == folder && isAlone(folder, Manifest) {
			os.Remove(filepath.Join(folder, Manifest))
		}
		os.Remove(path) // only if it is empty
	}
}

// drop removes a file if it is psim's own or if its place has a link to it. Otherwise it moves the file
// to its place, unless something is there.
func (f Folder) drop(path, place string, own bool) {
	if own {
		os.Remove(path)
		return
	}
	mine, err := os.Lstat(path)
	if err != nil {
		return
	}
	there, err := os.Lstat(place)
	switch {
	case err == nil && os.SameFile(mine, there):
		os.Remove(path)
	case os.IsNotExist(err):
		if os.MkdirAll(filepath.Dir(place), 0o777) == nil {
			os.Rename(path, place)
		}
	}
}

// isAlone reports whether a file is the only entry of a folder.
func isAlone(folder, name string) bool {
	entries, err := os.ReadDir(folder)
	return err == nil && len(entries) == 1 && entries[0].Name() == name
}

// removeFile removes a file of a folder, and the folders below it that are empty then.
func removeFile(folder, name string) {
	path := filepath.Join(folder, filepath.FromSlash(name))
	if os.Remove(path) != nil {
		return
	}
	for d := filepath.Dir(path); d != filepath.Clean(folder) && os.Remove(d) == nil; d = filepath.Dir(d) {
	}
}
