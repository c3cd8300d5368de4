package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"psim/internal/files"
	"psim/internal/interrupt"
)

// writeOne writes the file of a flag, and says so.
func writeOne(cmd *cobra.Command, flag, path string, render func(io.Writer) error) error {
	folder, name := filepath.Split(filepath.Clean(path))
	f := files.Folder{Path: filepath.Clean(folder), Owner: "plot", InPlace: true, Keep: func(string) bool { return true }}
	file := files.File{Path: name, Render: func(w io.Writer) error { return renderUntil(cmd.Context(), w, render) }}
	if _, err := os.Stat(f.Path); os.IsNotExist(err) {
		return fmt.Errorf("--%s %s: there is no folder %s; make it first", flag, path, f.Path)
	}
	if !files.IsFolder(f.Path) { // for the error
		return flagged(flag, files.Write(cmd.Context(), []files.File{{Path: path, Render: file.Render}}))
	}
	if err := f.Write(cmd.Context(), []files.File{file}); err != nil {
		if reason := files.CheckWritable(f.Path); reason != nil { // which may say more
			err = fmt.Errorf("%s: cannot be written: %s", path, files.Reason(reason))
		}
		return flagged(flag, err)
	}
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), "wrote", visible(path))
	return err
}

// renderUntil draws into memory, and gives up as soon as the context ends.
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
