package files

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errInPlace says that a folder cannot be swapped as a whole: it is a mount or the current folder, or
// it holds something that cannot be linked.
var errInPlace = errors.New("the folder cannot be swapped")

// mostLinks limits the number of files that are linked into the folder that replaces an old one.
const mostLinks = 1000

// A change replaces the files of a folder's owner.
type change struct {
	Folder
	owners   map[string]string // of the files in the folder
	contents map[string][]byte // of the new files
}

// manifest lists the folder's files after the change.
func (c change) manifest() manifest {
	m := readManifest(c.Path)
	set := fileSet{Partial: c.Partial, Files: map[string]string{}}
	for name, sum := range m.Sets[c.Owner].Files {
		if c.stays(name) {
			set.Files[name] = sum
		}
	}
	for name, owner := range c.owners { // without a manifest
		if _, listed := m.Sets[owner]; owner == c.Owner && !listed && c.stays(name) {
			if data, err := Read(filepath.Join(c.Path, filepath.FromSlash(name)), io.ReadAll); err == nil {
				set.Files[name] = hash(data)
			}
		}
	}
	for name, data := range c.contents {
		for _, other := range m.Sets {
			delete(other.Files, name)
		}
		set.Files[name] = hash(data)
	}
	m.Sets[c.Owner] = set
	return m
}

// swap makes a folder next to the old one, with the new files and links to those that stay, and swaps
// the two folders in one step.
func (c change) swap() error {
	if c.InPlace || c.current() {
		return errInPlace
	}
	fresh, err := os.MkdirTemp(filepath.Dir(c.Path), c.prefix()+"*")
	if err != nil {
		return errInPlace
	}
	defer c.clean(fresh)
	// The manifest comes first, so that the folder can be cleaned up after a kill.
	if err := c.manifest().write(fresh); err != nil {
		return err
	}
	for name, data := range c.contents {
		if err := writeFile(filepath.Join(fresh, filepath.FromSlash(name)), data); err != nil {
			return err
		}
	}
	if err := c.link(fresh); err != nil {
		return err
	}
	if !alike(fresh, c.Path) || exchange(fresh, c.Path) != nil {
		return errInPlace
	}
	return nil
}

// alike gives the fresh folder the mode of the old one, and reports whether both give everybody the
// same permissions.
func alike(fresh, old string) bool {
	was, err := os.Stat(old)
	if err != nil || os.Chmod(fresh, was.Mode()) != nil {
		return false
	}
	is, err := os.Stat(fresh)
	return err == nil && is.Mode() == was.Mode() && sameOwner(is, was, fresh, old)
}

// current reports whether the folder is the current one or above it. A shell there would not see that
// the folder was replaced.
func (c change) current() bool {
	here, err := os.Getwd()
	if err != nil {
		return true
	}
	folder, err := filepath.Abs(c.Path)
	if resolved, problem := filepath.EvalSymlinks(here); problem == nil {
		here = resolved
	}
	if resolved, problem := filepath.EvalSymlinks(folder); problem == nil {
		folder = resolved
	}
	below, problem := filepath.Rel(folder, here)
	return err != nil || problem != nil || below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// prefix returns the beginning of the names of folders that are made next to f.
func (f Folder) prefix() string { return "." + filepath.Base(f.Path) + ".psim-" }

// link makes links to all files that stay in the fresh folder.
func (c change) link(fresh string) error {
	links := 0
	return filepath.WalkDir(c.Path, func(path string, entry fs.DirEntry, err error) error {
		name, problem := filepath.Rel(c.Path, path)
		if err != nil || problem != nil {
			return errInPlace
		}
		to := filepath.Join(fresh, name)
		links++
		switch name = filepath.ToSlash(name); {
		case name == "." || name == Manifest:
			return nil
		case links > mostLinks || entry.Name() == Manifest || entry.Name() == staging:
			return errInPlace
		case entry.IsDir():
			if c.ours(name) {
				return nil
			}
			err = os.MkdirAll(to, 0o777)
		case !c.stays(name):
			return nil
		case entry.Type().IsRegular():
			if err = os.MkdirAll(filepath.Dir(to), 0o777); err == nil {
				err = os.Link(path, to)
			}
		default:
			return errInPlace
		}
		if err != nil {
			return errInPlace
		}
		return nil
	})
}

// ours reports whether the owner wrote a file into a folder inside the folder.
func (c change) ours(folder string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(c.owners)), func(name string) bool {
		return c.owners[name] == c.Owner && strings.HasPrefix(name, folder+"/")
	})
}

// inPlace puts the files into the existing folder. It saves all files before it renames the first, and
// moves the manifest last, so that a folder that was interrupted is recognized.
func (c change) inPlace() error {
	m, fresh := c.manifest(), filepath.Join(c.Path, staging)
	if err := os.MkdirAll(fresh, 0o777); err != nil {
		return err
	}
	defer c.clean(fresh)
	if err := m.write(fresh); err != nil {
		return err
	}
	for name, data := range c.contents {
		if err := writeFile(filepath.Join(fresh, filepath.FromSlash(name)), data); err != nil {
			return err
		}
	}
	for name := range c.contents { // make all folders first, because the disk may be full
		if err := os.MkdirAll(filepath.Dir(filepath.Join(c.Path, filepath.FromSlash(name))), 0o777); err != nil {
			return err
		}
	}
	if err := c.move(fresh); err != nil {
		return err
	}
	for name := range c.owners {
		if _, again := c.contents[name]; !again && !c.stays(name) {
			removeFile(c.Path, name)
		}
	}
	return os.Rename(filepath.Join(fresh, Manifest), filepath.Join(c.Path, Manifest))
}

// move moves all files into the folder, or none if one cannot be moved, for example because the old
// file belongs to another user in a shared folder.
func (c change) move(fresh string) (err error) {
	names := slices.Sorted(maps.Keys(c.contents))
	var undo []func()
	defer func() {
		for _, back := range slices.Backward(undo) {
			if err != nil {
				back()
			}
		}
	}()
	for _, name := range names {
		from, to := filepath.Join(fresh, filepath.FromSlash(name)), filepath.Join(c.Path, filepath.FromSlash(name))
		back, err := replace(from, to)
		if err != nil {
			return err
		}
		undo = append(undo, back)
	}
	for _, name := range names {
		os.Remove(filepath.Join(fresh, filepath.FromSlash(name))) // the old file, after an exchange
	}
	return nil
}

// replace moves a file to another path. If possible it exchanges the file with the one that is there.
func replace(from, to string) (undo func(), err error) {
	was, err := os.Lstat(to)
	if err == nil && !was.IsDir() && exchangeAtOnce(from, to) == nil {
		return func() { exchangeAtOnce(from, to) }, nil
	}
	if nothing := os.IsNotExist(err); nothing {
		undo = func() { os.Rename(to, from) }
	} else {
		undo = func() {}
	}
	return undo, os.Rename(from, to)
}

// exchange swaps two folders, in one step if the system can.
func exchange(fresh, old string) error {
	if exchangeAtOnce(fresh, old) == nil {
		return nil
	}
	aside := fresh + "-old"
	if err := os.Rename(old, aside); err != nil {
		return err
	}
	if err := os.Rename(fresh, old); err != nil {
		os.Rename(aside, old)
		return err
	}
	return os.Rename(aside, fresh)
}
