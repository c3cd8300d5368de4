package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Folder holds the files of one run of a command. A later run of the command replaces all files of
// the earlier run, and no others.
type Folder struct {
	Path string
	// Owner is the command that writes the files. Several commands may write into a folder.
	Owner string
	// Guarded lists the files that Check looks for.
	Guarded []string
	// Writes lists the files that any run of the command may write; nil stands for Guarded. Of a manifest,
	// which may be anybody's, other names are not believed. Numbers in names may be any.
	Writes []string
	// Overwrite says that files with the names of the run's are replaced, whoever wrote them.
	Overwrite bool
	// Keep reports whether a file of an earlier run stays although this run did not write it. It
	// may be nil.
	Keep func(name string) bool
	// Named says that the user named the file, in a folder that may be any.
	Named bool
	// Inputs lists the paths of files that the run reads. They are neither replaced nor removed.
	Inputs []string
	// Made says that psim names the last part of the path itself. It may be no link.
	Made bool
	// Partial says that the run that writes the files was interrupted.
	Partial bool
}

// Check reports whether the files of a run can be written. It finishes the moves of a process that was
// killed, and changes nothing else: a missing folder is made only when there are files.
func (f Folder) Check() error {
	if err := f.distinct(); err != nil {
		return err
	}
	if p, err := openPlace(f.Path); err == nil {
		defer p.Close()
		if CheckWritable(f.Path) == nil {
			err = p.wait()
		}
		if err == nil {
			err = f.guard(p, f.Guarded, nil)
		}
		if err != nil {
			return err
		}
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

// distinct refuses the root folder and the home folder, where results would be among everything else, and
// a link that psim would follow unasked.
func (f Folder) distinct() error {
	if info, err := os.Lstat(filepath.Clean(f.Path)); f.Made && err == nil && info.Mode()&os.ModeSymlink != 0 {
		return fmt.Errorf("%s: is a link, which psim does not follow; remove it, or name another folder", f.Path)
	}
	info, err := os.Stat(f.Path)
	if err != nil || f.Named {
		return nil
	}
	full, _ := filepath.Abs(f.Path)
	home, _ := os.UserHomeDir()
	for _, c := range [][2]string{{filepath.VolumeName(full) + "/", "the root folder"}, {home, "your home folder"}} {
		if refused, err := os.Stat(c[0]); err == nil && os.SameFile(info, refused) {
			return fmt.Errorf("%s: is %s; name a folder in it, such as %s", f.Path, c[1], filepath.Join(c[0], "out"))
		}
	}
	return nil
}

// guard refuses to replace files that the owner did not write, or that were changed since. Files that
// have the hash that the run would give them are never refused.
func (f Folder) guard(p place, names []string, hashes map[string]string) error {
	m, err := p.manifest()
	if err != nil && !f.Overwrite {
		return err
	}
	if err := f.guardInputs(m, names); err != nil {
		return err
	}
	for _, name := range names {
		is, owner := p.sum(name), m.owner(name)
		ours := is == nothing || is == m.Sets[f.Owner].Files[name] || is == hashes[name]
		// A picture that another command has drawn may be drawn again, with the same bytes.
		again := f.Named && hashes == nil && is == m.Sets[owner].Files[name]
		switch {
		case ours || again:
		case len(is) != hashLength:
			return f.refused(name, is, "")
		case f.Overwrite:
		case owner == "":
			return f.refused(name, "was not written by psim", ", or replace it with --overwrite")
		case owner == f.Owner:
			return f.refused(name, "was changed since psim wrote it", ", or replace it with --overwrite")
		default:
			return f.refused(name, "is of psim "+owner, ", or replace it with --overwrite")
		}
	}
	return nil
}

// guardInputs refuses to replace or remove what the run reads.
func (f Folder) guardInputs(m manifest, names []string) error {
	for _, name := range slices.Sorted(maps.Keys(m.Sets[f.Owner].Files)) {
		if f.Keep == nil || !f.Keep(name) {
			names = append(names[:len(names):len(names)], name)
		}
	}
	for _, name := range names {
		path := filepath.Join(f.Path, name)
		if slices.ContainsFunc(f.Inputs, func(input string) bool { return Same(path, input) }) {
			return f.refused(name, "is one of the inputs", "")
		}
	}
	return nil
}

// refused returns the error for a file that is not replaced, with a remedy besides another name.
func (f Folder) refused(name, problem, remedy string) error {
	if f.Named {
		return fmt.Errorf("%s: %s; name another file%s", filepath.Join(f.Path, name), problem, remedy)
	}
	return fmt.Errorf("%s: %s %s; name another folder%s", f.Path, name, problem, remedy)
}

// Aside returns the folder for the files of an interrupted run: a folder next to f if f has the files
// of a finished run, so that these are not replaced.
func (f Folder) Aside() Folder {
	f.Partial = true
	p, err := openPlace(f.Path)
	if err != nil {
		return f
	}
	defer p.Close()
	p.wait()
	m, _ := p.manifest()
	set, ok := m.Sets[f.Owner]
	there := func(name string) bool { return p.sum(name) != nothing }
	if !ok && slices.ContainsFunc(f.Guarded, there) || ok && !set.Partial {
		if full, err := filepath.Abs(f.Path); err == nil && strings.HasPrefix(filepath.Base(f.Path), ".") {
			f.Path = full
		}
		f.Path = filepath.Clean(f.Path) + ".partial"
	}
	return f
}

// Write writes files into the folder, by names in the folder with slashes, and further files elsewhere.
// It writes either all or none of the files in the folder. Files of an earlier run that this run did not
// write are removed, since they would seem to belong to this run. If the Folder has no path, or if it
// cannot be written to, Write still writes the files elsewhere.
func (f Folder) Write(ctx context.Context, list []File, elsewhere ...File) error {
	inside := slices.Clone(list)
	for i := range inside {
		inside[i].Path = filepath.Join(f.Path, filepath.FromSlash(list[i].Path))
	}
	contents, discard, err := render(ctx, inside, true)
	defer discard()
	if err != nil {
		return err
	}
	others, discard, err := render(ctx, elsewhere, false)
	defer discard()
	if err != nil {
		return err
	}
	if f.Path != "" {
		err = f.put(list, contents)
	}
	if err != nil && !errors.As(err, new(Unwritable)) {
		return err
	}
	return errors.Join(err, replace(elsewhere, others))
}

// put replaces the files of the folder, while other processes are locked out.
func (f Folder) put(list []File, contents []*content) error {
	if err := f.distinct(); err != nil {
		return err
	}
	p, undo, err := claim(f.Path)
	if err != nil {
		return err
	}
	defer p.Close()
	if err = p.finish(); err == nil {
		err = f.change(p, list, contents)
	}
	if err != nil {
		undo()
	}
	return err
}

// number matches what differs between the names of one kind of files.
var number = regexp.MustCompile("[0-9]+")

// writes reports whether the command can have written a file of that name, in whatever folder of the folder.
func (f Folder) writes(name string) bool {
	kind := func(name string) string { return number.ReplaceAllString(path.Base(name), "0") }
	names := f.Writes
	if names == nil {
		names = f.Guarded
	}
	return slices.ContainsFunc(names, func(w string) bool { return kind(w) == kind(name) })
}

// stays reports whether a file of an earlier run stays in the folder when files with the given names are
// written. A folder in the folder is replaced as a whole.
func (f Folder) stays(name string, written map[string]string) bool {
	if f.Keep == nil || !f.Keep(name) {
		return false
	}
	part, _, _ := strings.Cut(name, "/")
	for w := range written {
		if strings.HasPrefix(w, part+"/") {
			return false
		}
	}
	return true
}
