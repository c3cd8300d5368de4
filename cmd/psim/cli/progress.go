package cli

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows on stderr how far long work is: on a terminal in one line that changes, otherwise
// in a new line every few seconds.
type progress struct {
	w        io.Writer
	quiet    bool
	terminal bool
	last     time.Time
	width    int
}

// progressInterval is the least time between two lines where stderr is not a terminal.
const progressInterval = 5 * time.Second

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet, last: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) showf(format string, args ...any) { p.show(fmt.Sprintf(format, args...)) }

// show replaces the line of a terminal by the text.
func (p *progress) show(text string) {
	if p.quiet {
		return
	}
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r%-*s", p.width, text)
		p.width = len(text)
	case time.Since(p.last) > progressInterval:
		p.last = time.Now()
		fmt.Fprintln(p.w, text)
	}
}

func (p *progress) clear() {
	if p.terminal && p.width > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.width, "")
		p.width = 0
	}
}
