package files

import (
	"os"
	"path/filepath"
)

// Steady reads several files of a folder that psim wrote together. If they are replaced meanwhile, or
// if read returns an error, which may be a consequence, it waits for the process that writes and reads
// once more.
func Steady[T any](folder string, read func() (T, error)) (T, error) {
	root, _ := written(folder)
	for again := false; ; again = true {
		before := manifestText(root)
		v, err := read()
		_, moving := os.Lstat(filepath.Join(root, staging))
		if again || err == nil && string(before) == string(manifestText(root)) && os.IsNotExist(moving) {
			return v, err
		}
		unlock, _ := lock(filepath.Dir(resolve(root)), true)
		defer unlock()
	}
}

// resolve follows the links of a path, if they lead to something.
func resolve(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return filepath.Clean(path)
}
