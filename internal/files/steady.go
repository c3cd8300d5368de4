package files

import (
	"os"
	"path/filepath"
)

// Steady reads several files of a folder as psim has written them together. If they
// are replaced meanwhile, or read returns an error, which may come of that, it waits
// for whoever writes and reads again.
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

// resolve follows the links of a path, as far as they lead anywhere.
func resolve(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return filepath.Clean(path)
}
