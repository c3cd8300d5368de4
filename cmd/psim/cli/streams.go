package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// streams are the two outputs of a command: results go to out; progress, warnings and the names
// of written files go to err.
type streams struct{ out, err io.Writer }

func streamsOf(cmd *cobra.Command) streams {
	return streams{out: cmd.OutOrStdout(), err: cmd.ErrOrStderr()}
}

// visibleWriter makes control characters visible. It keeps the first error of writing for Run to
// report, because not every printer does.
type visibleWriter struct {
	io.Writer
	err error
}

func (w *visibleWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		_, w.err = io.WriteString(w.Writer, visible(string(p)))
	}
	return len(p), nil
}

// visible replaces characters that could command a terminal, or turn the order of others around, by
// their JSON escapes: names of files and names in files may contain any. Line breaks and tabs stay.
func visible(text string) string {
	hidden := func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
	}
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// inOneLine escapes the line breaks of arguments, such as names of files, where a text repeats them.
func inOneLine(text string, args []string) string {
	for _, arg := range args {
		if arg = visible(arg); strings.Contains(arg, "\n") {
			for _, part := range []string{arg, strings.TrimSuffix(filepath.Base(arg), ".toml")} {
				text = strings.ReplaceAll(text, part, strings.ReplaceAll(part, "\n", `\n`))
			}
		}
	}
	return text
}
