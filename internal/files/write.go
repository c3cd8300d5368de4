// Package files writes the files of a command all or none, and reads files
// with errors that name them.
package files

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

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
			return fmt.Errorf("%s: cannot be made: %s", folder, Reason(problem))
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
			return nil, fmt.Errorf("%s: cannot be written: a folder of that name is in the way", f.Path)
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
			return fmt.Errorf("%s: cannot be written: %s", f.Path, Reason(err))
		}
	}
	for i, f := range list {
		if err := os.Rename(temps[i], f.Path); err != nil {
			return fmt.Errorf("%s: cannot be replaced: %s", f.Path, Reason(err))
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
