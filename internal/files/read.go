package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Read opens a file and parses it. Errors begin with its path, except for a missing file, for which
// os.IsNotExist is true. A byte order mark, which editors under Windows write, is skipped.
func Read[T any](path string, parse func(io.Reader) (T, error)) (T, error) {
	var none T
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return none, err
	}
	if err == nil && !info.Mode().IsRegular() {
		return none, fmt.Errorf("%s: is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return none, fmt.Errorf("%s: %s", path, Reason(err))
	}
	defer f.Close()
	text := bufio.NewReader(f)
	if mark, err := text.Peek(3); err == nil && string(mark) == "\ufeff" {
		text.Discard(len(mark))
	}
	v, err := parse(text)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// IsFolder reports whether a path names a folder.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Same reports whether two paths name the same file, whether or not it exists.
func Same(a, b string) bool {
	infoA, err := os.Stat(a)
	if infoB, missing := os.Stat(b); err == nil && missing == nil {
		return os.SameFile(infoA, infoB)
	}
	absoluteA, errA := filepath.Abs(a)
	absoluteB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a != "" && b != "" && absoluteA == absoluteB
}

// Reason returns the operating system's message without the path.
func Reason(err error) string {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err.Error()
	case errors.As(err, &link):
		return link.Err.Error()
	}
	return err.Error()
}

// Exists reports whether a file exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
