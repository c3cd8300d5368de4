package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"psim/internal/files"
	"psim/internal/interrupt"
	"psim/reports/trace"
)

// A namedFile is the one file that a flag asks for. It replaces only a file that the same command wrote.
type namedFile struct {
	flag, path string
	owner      string // the command
	overwrite  bool
}

// folder returns the folder of the file, and the file's name in it.
func (n namedFile) folder() (files.Folder, string) {
	dir, name := filepath.Split(filepath.Clean(n.path))
	return files.Folder{
		Path: filepath.Clean(dir), Owner: n.owner, Guarded: []string{name}, Overwrite: n.overwrite,
		Named: true, Keep: func(string) bool { return true },
	}, name
}

// check refuses, before any work, a file that cannot be written.
func (n namedFile) check() error {
	folder, _ := n.folder()
	if _, err := os.Stat(folder.Path); os.IsNotExist(err) {
		return fmt.Errorf("--%s %s: there is no folder %s; make it first", n.flag, n.path, folder.Path)
	}
	if files.IsFolder(n.path) {
		return fmt.Errorf("--%s %s: is a folder; name a file", n.flag, n.path)
	}
	if _, err := os.Lstat(n.path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("--%s %s: cannot be written: %s", n.flag, visible(n.path), files.Reason(err))
	}
	if err := files.CheckWritable(folder.Path); err != nil {
		return fmt.Errorf("--%s %s: cannot be written: %s", n.flag, n.path, files.Reason(err))
	}
	return usageError(n.flag, folder.Check())
}

// write writes the file.
func (n namedFile) write(ctx context.Context, render func(io.Writer) error) error {
	folder, name := n.folder()
	return folder.Write(ctx, []files.File{{Path: name, Render: render}})
}

// draw draws a picture into the file, and reports that it did.
func (n namedFile) draw(cmd *cobra.Command, render func(io.Writer) error) error {
	err := n.write(cmd.Context(), func(w io.Writer) error { return renderUntil(cmd.Context(), w, render) })
	if err != nil {
		return flagged(n.flag, err)
	}
	_, err = fmt.Fprintln(cmd.ErrOrStderr(), "wrote", visible(n.path))
	return err
}

// renderUntil draws into memory and stops waiting as soon as the context ends.
func renderUntil(ctx context.Context, w io.Writer, render func(io.Writer) error) error {
	data, err := interrupt.Await(ctx, func() (string, error) {
		var b strings.Builder
		err := render(&b)
		return b.String(), err
	})
	if err == nil {
		_, err = io.WriteString(w, data)
	}
	return err
}

// pictureFormat returns the format of a picture by its file name, "" for an unknown one.
func pictureFormat(path string) string {
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	if !slices.Contains(trace.Formats(), format) {
		return ""
	}
	return format
}

// pictureEndings lists the endings of picture files in words.
func pictureEndings() string {
	formats := trace.Formats()
	return "." + strings.Join(formats[:len(formats)-1], ", .") + " or ." + formats[len(formats)-1]
}
