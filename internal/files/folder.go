package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A Folder holds the files of one run of a command. A later run of the command replaces all files of
// the earlier run, and no others.
type Folder struct {
	Path string
	// Owner is the command that writes the files. Several commands may write into a folder.
	Owner string
	// Guarded lists the files that Check looks for. They are replaced only if the owner wrote them.
	Guarded []string
	// Earlier returns the owner and the files, with slashes, of a folder without a manifest; no
	// files if psim did not write the folder. It may be nil.
	Earlier func(folder string) (owner string, names []string)
	// Keep reports whether a file of an earlier run stays although this run did not write it. It
	// may be nil.
	Keep func(name string) bool
	// InPlace says that the folder is the user's own, so that it is not swapped.
	InPlace bool
	// Partial says that the run that writes the files was interrupted.
	Partial bool
}

// Check reports whether the files of a run can be written. It changes nothing: a missing folder is
// made only when there are files.
func (f Folder) Check() error {
	if err := f.guard(f.Guarded); err != nil {
		return err
	}
	for above := filepath.Clean(f.Path); ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		switch {
		case os.IsNotExist(err) && above != filepath.Dir(above):
			if info, err := os.Lstat(above); err == nil && info.Mode()&os.ModeSymlink != 0 {
				return fmt.Errorf("%s: cannot be made: %s is a link to nothing", f.Path, above)
			}
			continue
		case err != nil:
			return unwritable(f.Path, "made", err)
		case !info.IsDir(): // this is f itself, since Stat fails for a path below a file
			return fmt.Errorf("%s: is a file; name a folder", f.Path)
		case above != filepath.Clean(f.Path):
			return unwritable(f.Path, "made", CheckWritable(above))
		}
		return unwritable(f.Path, "written to", CheckWritable(above))
	}
}

// isFolder reports whether a path is a folder.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// guard refuses to replace files with the given names that are not the owner's.
func (f Folder) guard(names []string) error {
	owners, another := f.owners(f.Path), "folder"
	if f.InPlace {
		another = "file"
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(f.Path, filepath.FromSlash(name)))
		switch owner := owners[name]; {
		case errors.Is(err, syscall.ENOTDIR) && isFolder(f.Path):
			return fmt.Errorf("%s: has a file in the place of the folder of %s; name another %s", f.Path, name, another)
		case err != nil || info.IsDir() || owner == f.Owner && owner != "":
		case owner != "":
			return fmt.Errorf("%s: holds %s of psim %s; name another %s", f.Path, name, owner, another)
		default:
			return fmt.Errorf("%s: holds %s, which psim has not written; name another %s", f.Path, name, another)
		}
	}
	return nil
}

// owners returns the command that wrote each file of a folder. It includes the files of a run that was
// killed while it moved them into place.
func (f Folder) owners(folder string) map[string]string {
	owners := readManifest(folder).owners()
	maps.Copy(owners, readManifest(filepath.Join(folder, staging)).owners())
	if len(owners) == 0 && f.Earlier != nil {
		owner, names := f.Earlier(folder)
		for _, name := range names {
			owners[name] = owner
		}
	}
	return owners
}

// finished reports whether the folder has files of the owner from a finished run.
func (f Folder) finished() bool {
	if set, ok := readManifest(f.Path).Sets[f.Owner]; ok {
		return !set.Partial
	}
	return slices.Contains(slices.Collect(maps.Values(f.owners(f.Path))), f.Owner)
}

// Aside returns the folder for the files of an interrupted run: a folder next to f if f has the files
// of a finished run, so that these are not replaced.
func (f Folder) Aside() Folder {
	f.Partial = true
	if f.Path != "" && f.finished() {
		if full, err := filepath.Abs(f.Path); err == nil && strings.HasPrefix(filepath.Base(f.Path), ".") {
			f.Path = full
		}
		f.Path = filepath.Clean(f.Path) + ".partial"
	}
	return f
}

// Write writes files into the folder, by names in the folder, and further files elsewhere. It writes
// either all or none of the files in the folder. Files of an earlier run that this run did not write
// are removed, since they would seem to belong to this run. If the Folder has no path, or if it cannot
// be written to, Write still writes the files elsewhere.
func (f Folder) Write(ctx context.Context, list []File, elsewhere ...File) error {
	if f.Path == "" {
		return Write(ctx, elsewhere)
	}
	inside := slices.Clone(list)
	for i := range inside {
		inside[i].Path = filepath.Join(f.Path, filepath.FromSlash(list[i].Path))
	}
	contents, err := render(ctx, append(inside, elsewhere...))
	if err != nil {
		return err
	}
	err = f.put(list, contents[:len(list)])
	if err != nil && !errors.As(err, new(Unwritable)) {
		return err
	}
	return errors.Join(err, place(elsewhere, contents[len(list):]))
}

// put replaces the files of the folder, while other processes are locked out.
func (f Folder) put(list []File, contents []bytes.Buffer) (err error) {
	f.Path = resolve(f.Path)
	undo, err := makeFolder(f.Path)
	defer func() {
		if err != nil {
			undo()
		}
	}()
	if err != nil {
		return unwritable(f.Path, "made", err)
	}
	unlock, locked := lock(filepath.Dir(f.Path), false)
	defer unlock()
	if locked {
		f.recover()
	}
	c := change{Folder: f, owners: f.owners(f.Path), contents: map[string][]byte{}}
	var changed []string
	for i, file := range list {
		old, err := Read(filepath.Join(f.Path, filepath.FromSlash(file.Path)), io.ReadAll)
		same := err == nil && bytes.Equal(old, contents[i].Bytes())
		if same && c.owners[file.Path] != f.Owner {
			continue // the same file of another owner keeps its owner
		}
		c.contents[file.Path] = contents[i].Bytes()
		changed = append(changed, file.Path)
	}
	if err := f.guard(changed); err != nil {
		return err
	}
	if err = c.swap(); errors.Is(err, errInPlace) {
		err = c.inPlace()
	}
	named := f.Path
	if f.InPlace && len(list) == 1 {
		named = filepath.Join(f.Path, list[0].Path)
	}
	return unwritable(named, "written", err)
}

// stays reports whether a file of the folder is in it after the change.
func (c change) stays(name string) bool {
	if c.owners[name] != c.Owner {
		return true
	}
	return c.Keep != nil && c.Keep(name) && !c.rewrites(name)
}

// rewrites reports whether a name is in a folder that gets new files.
func (c change) rewrites(name string) bool {
	part, _, _ := strings.Cut(name, "/")
	for written := range c.contents {
		if strings.HasPrefix(written, part+"/") {
			return true
		}
	}
	return false
}
