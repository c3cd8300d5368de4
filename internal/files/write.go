// Package files writes the files of a command all or none, and reads files
// with errors that name them.
package files

import (
	"bytes"
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

// An Unwritable error says that files could not be written, or a folder made, for a
// cause that is not in their names: a full disk, a folder that is read-only.
type Unwritable struct{ error }

// unwritable says what cannot be done with a path; nil for no error. A name that no
// file can have is wrong usage.
func unwritable(path, done string, err error) error {
	if err == nil {
		return nil
	}
	said := fmt.Errorf("%s: cannot be %s: %s", path, done, Reason(err))
	for _, wrong := range []error{syscall.ENOENT, syscall.ENOTDIR, syscall.EEXIST, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL} {
		if errors.Is(err, wrong) {
			return said
		}
	}
	return Unwritable{said}
}

// A File is one to be written: its path, and what writes its content.
type File struct {
	Path   string
	Render func(io.Writer) error
}

// Write writes all files or none: it renders all into memory, saves them under
// other names, and renames them, in order, only when all are saved. Replacing a
// file is one step, so nobody sees half of one. The given folders are made for
// them, and are gone again if it fails.
func Write(ctx context.Context, list []File, folders ...string) (err error) {
	for _, folder := range folders {
		undo, problem := makeFolder(folder)
		defer func() {
			if err != nil {
				undo()
			}
		}()
		if problem != nil {
			return unwritable(folder, "made", problem)
		}
	}
	contents, err := render(ctx, list)
	if err != nil {
		return err
	}
	return place(list, contents)
}

func render(ctx context.Context, list []File) ([]bytes.Buffer, error) {
	contents := make([]bytes.Buffer, len(list))
	for i, f := range list {
		if IsFolder(f.Path) {
			return nil, Unwritable{fmt.Errorf("%s: cannot be written: a folder of that name is in the way", f.Path)}
		}
		if err := f.Render(&contents[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return contents, nil
}

// place saves all contents under temporary names before it renames the first.
func place(list []File, contents []bytes.Buffer) error {
	var temps []string
	defer func() {
		for _, t := range temps {
			os.Remove(t) // nothing is there once it is renamed
		}
	}()
	for i, f := range list {
		temps = append(temps, filepath.Join(filepath.Dir(f.Path), fmt.Sprintf(".psim-%d-%d", os.Getpid(), rand.Uint64())))
		if err := os.WriteFile(temps[i], contents[i].Bytes(), 0o666); err != nil {
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

// writeFile writes a file, and makes its folder, as the umask allows.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o666)
}

// makeFolder makes a folder and those above it. undo removes what it has made,
// as far as nothing is in it.
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
