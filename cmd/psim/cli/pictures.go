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

// A pictureFile is the picture that a flag asks for.
type pictureFile struct {
	flag, path string
	render     func(io.Writer) error
}

// write draws the picture into its file and reports that it did.
func (p pictureFile) write(cmd *cobra.Command) error {
	dir, name := filepath.Split(filepath.Clean(p.path))
	folder := files.Folder{
		Path: filepath.Clean(dir), Owner: "plot", InPlace: true,
		Keep: func(string) bool { return true },
	}
	render := func(w io.Writer) error { return renderUntil(cmd.Context(), w, p.render) }
	if _, err := os.Stat(folder.Path); os.IsNotExist(err) {
		return fmt.Errorf("--%s %s: there is no folder %s; make it first", p.flag, p.path, folder.Path)
	}
	if !files.IsFolder(folder.Path) { // writing fails with the reason
		return flagged(p.flag, files.Write(cmd.Context(), []files.File{{Path: p.path, Render: render}}))
	}
	if err := folder.Write(cmd.Context(), []files.File{{Path: name, Render: render}}); err != nil {
		if reason := files.CheckWritable(folder.Path); reason != nil { // which may say more
			err = fmt.Errorf("%s: cannot be written: %s", p.path, files.Reason(reason))
		}
		return flagged(p.flag, err)
	}
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), "wrote", visible(p.path))
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
