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
)

// A Folder holds the files of one run of a command. A later run of the command
// replaces all of an earlier one's, and nothing else.
type Folder struct {
	Path string
	// Owner is the command whose files they are. Several may write into a folder.
	Owner string
	// Guarded names the files that Check looks for, which are not replaced
	// unless the owner wrote them.
	Guarded []string
	// Earlier says of a folder without a manifest who wrote which files, with
	// slashes; none where psim has not written it. It may be nil.
	Earlier func(folder string) (owner string, names []string)
	// Keep says of a file of an earlier run that it stays although this one has
	// not written it again. It may be nil.
	Keep func(name string) bool
	// InPlace says that the folder is the user's, so that it is not swapped.
	InPlace bool
	// Partial says that the files are not those of a finished run.
	Partial bool
}

// Check reports whether the files of a run can be written, without a trace: a
// folder that is not there is made only when there are files.
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
		case !info.IsDir(): // f itself: above another it would be an error of Stat
			return fmt.Errorf("%s: is a file; name a folder", f.Path)
		case above != filepath.Clean(f.Path):
			return unwritable(f.Path, "made", CheckWritable(above))
		}
		return unwritable(f.Path, "written to", CheckWritable(above))
	}
}

// guard refuses to replace files of some names that are not the owner's.
func (f Folder) guard(names []string) error {
	owners, another := f.owners(f.Path), "folder"
	if f.InPlace {
		another = "file"
	}
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(f.Path, filepath.FromSlash(name)))
		switch owner := owners[name]; {
		case err != nil || info.IsDir() || owner == f.Owner && owner != "":
		case owner != "":
			return fmt.Errorf("%s: holds %s of psim %s; name another %s", f.Path, name, owner, another)
		default:
			return fmt.Errorf("%s: holds %s, which psim has not written; name another %s", f.Path, name, another)
		}
	}
	return nil
}

// owners returns who has written the files of a folder, a run that was killed
// while it moved them into place among them.
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

// finished reports whether the owner's files of a finished run are in the folder.
func (f Folder) finished() bool {
	if set, ok := readManifest(f.Path).Sets[f.Owner]; ok {
		return !set.Partial
	}
	return slices.Contains(slices.Collect(maps.Values(f.owners(f.Path))), f.Owner)
}

// Aside returns the folder for files of a run that was interrupted: one beside f,
// if f holds those of a finished one, which they do not replace.
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

// Write puts files, whose paths are names in the folder, and further ones
// elsewhere in their places, or none of those in the folder. What an earlier run
// left and this one has not written again, which would pass for this one's, goes.
// Without a path it writes only those elsewhere. A folder that cannot be written to
// does not keep those back.
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

// put makes the files those of the folder, which no other process does meanwhile.
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
			continue // somebody else's stays so
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

// rewrites reports whether the folder of a name, if it is in one, has new files.
func (c change) rewrites(name string) bool {
	part, _, _ := strings.Cut(name, "/")
	for written := range c.contents {
		if strings.HasPrefix(written, part+"/") {
			return true
		}
	}
	return false
}
