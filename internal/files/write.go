// Package files writes the files of a command, either all or none of them, and reads files with
// errors that name them. In a folder it replaces and removes only bytes that it wrote itself, by their
// hashes, and it follows no links.
package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
)

// An Unwritable error says that files could not be written, or a folder could not be made, for a
// cause other than their names, such as a full disk or a read-only folder.
type Unwritable struct{ error }

// unwritable returns the error of an action on a path, or nil if err is nil. The error is Unwritable
// unless the name is at fault, which is wrong usage.
func unwritable(path, done string, err error) error {
	if err == nil {
		return nil
	}
	failed := fmt.Errorf("%s: cannot be %s: %s", path, done, Reason(err))
	for _, badName := range []error{
		syscall.ENOENT, syscall.ENOTDIR, syscall.EEXIST, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL,
	} {
		if errors.Is(err, badName) {
			return failed
		}
	}
	return Unwritable{failed}
}

// A File is a file to be written: its path, and the function that writes its content.
type File struct {
	Path   string
	Render func(io.Writer) error
}

// render renders all files, before any of them is written, with their hashes if those will be asked for. Call
// discard when they are not needed any more.
func render(ctx context.Context, list []File, hashed bool) (_ []*content, discard func(), _ error) {
	var contents []*content
	discard = func() {
		for _, c := range contents {
			c.close()
		}
	}
	for _, f := range list {
		if IsFolder(f.Path) {
			return nil, discard, Unwritable{
				fmt.Errorf("%s: cannot be written: a folder of that name is in the way", f.Path)}
		}
		c := newContent(ctx, f.Path, hashed)
		contents = append(contents, c)
		err := f.Render(c)
		if ended := ctx.Err(); ended != nil {
			return nil, discard, ended
		}
		if c.failed != nil {
			return nil, discard, unwritable(f.Path, "written", c.failed)
		}
		if err != nil {
			return nil, discard, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	return contents, discard, nil
}

// newFile opens a file that is to have other bytes than before.
const newFile = os.O_WRONLY | os.O_CREATE | os.O_TRUNC

// replace saves all contents under temporary names before it renames the first. A file is replaced in one
// step, so that other processes never see half of it.
func replace(list []File, contents []*content) error {
	var temps []string
	defer func() {
		for _, t := range temps {
			os.Remove(t) // fails for files that have been renamed
		}
	}()
	for i, f := range list {
		name := fmt.Sprintf(".psim-%d-%d", os.Getpid(), rand.Uint64())
		temps = append(temps, filepath.Join(filepath.Dir(f.Path), name))
		if err := contents[i].copyTo(os.OpenFile(temps[i], newFile, 0o666)); err != nil {
			return unwritable(f.Path, "written", err)
		}
	}
	for i, f := range list {
		if err := os.Rename(temps[i], f.Path); err != nil {
			return unwritable(f.Path, "replaced", err)
		}
	}
	return nil
}

// Swap writes a file that several processes may replace at once: whoever reads it gets what one of them wrote. The
// folder is made if it is missing.
func Swap(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return unwritable(path, "written", err)
	}
	c := newContent(context.Background(), path, false)
	defer c.close()
	if _, err := c.Write(data); err != nil {
		return unwritable(path, "written", err)
	}
	return replace([]File{{Path: path}}, []*content{c})
}

// makeFolder makes a folder and its missing parents. undo removes those that it made and that are
// empty.
func makeFolder(folder string) (undo func(), err error) {
	var made []string
	for f := filepath.Clean(folder); ; f = filepath.Dir(f) {
		if _, err := os.Lstat(f); err == nil || f == filepath.Dir(f) {
			break
		}
		made = append(made, f)
	}
	undo = func() {
		for _, f := range made {
			os.Remove(f)
		}
	}
	return undo, os.MkdirAll(folder, 0o777)
}

// WriteJSON writes an indented JSON value.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
