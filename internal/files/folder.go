package files

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// A Folder holds the files of one run of a command. A later run replaces all of
// an earlier one's, and nothing else.
type Folder struct {
	Path string
	// Guarded names the files that are not replaced unless psim wrote them.
	Guarded []string
	// Earlier lists the files that an earlier run may have left in a folder,
	// with slashes; none where psim has not written it. It may be nil.
	Earlier func(folder string) []string
}

// Check reports whether the files of a run can be written, without a trace: a
// folder that is not there is made only when there are files.
func (f Folder) Check() error {
	if len(f.earlier()) == 0 {
		for _, name := range f.Guarded {
			if info, err := os.Lstat(filepath.Join(f.Path, name)); err == nil && !info.IsDir() {
				return fmt.Errorf("%s: holds a %s that psim has not written; name another folder", f.Path, name)
			}
		}
	}
	if info, err := os.Stat(f.Path); err == nil && !info.IsDir() {
		return fmt.Errorf("%s: is a file; name a folder", f.Path)
	}
	undo, err := makeFolder(f.Path)
	defer undo()
	if err != nil {
		return fmt.Errorf("%s: cannot be made: %s", f.Path, Reason(err))
	}
	if err := CheckWritable(f.Path); err != nil {
		return fmt.Errorf("%s: cannot be written to: %s", f.Path, Reason(err))
	}
	return nil
}

// Write puts files, whose paths are names in the folder, and further ones
// elsewhere in their places, all or none. Then it removes what an earlier run
// left and this one has not written again, which would pass for this one's.
// Without a path it writes only those elsewhere.
func (f Folder) Write(ctx context.Context, list []File, elsewhere ...File) error {
	if f.Path == "" {
		return Write(ctx, elsewhere)
	}
	var names, folders []string
	all := slices.Clone(elsewhere)
	for _, file := range list {
		names = append(names, file.Path)
		file.Path = filepath.Join(f.Path, filepath.FromSlash(file.Path))
		all, folders = append(all, file), append(folders, filepath.Dir(file.Path))
	}
	stale := slices.DeleteFunc(f.earlier(), func(name string) bool { return slices.Contains(names, name) })
	if err := Write(ctx, all, append(folders, f.Path)...); err != nil {
		return err
	}
	return f.remove(stale)
}

func (f Folder) earlier() []string {
	if f.Earlier == nil {
		return nil
	}
	return f.Earlier(f.Path)
}

// remove removes files, and the folders below f that are then empty.
func (f Folder) remove(names []string) error {
	var folders []string
	for _, name := range names {
		full := filepath.Join(f.Path, filepath.FromSlash(name))
		if IsFolder(full) {
			continue
		}
		if err := os.Remove(full); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("%s: cannot be removed: %s", full, Reason(err))
		}
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			folders = append(folders, d)
		}
	}
	slices.SortFunc(folders, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, folder := range folders {
		os.Remove(filepath.Join(f.Path, filepath.FromSlash(folder))) // only if it is empty
	}
	return nil
}
