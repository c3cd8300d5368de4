package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"psim/exec/backend"
)

// progress tells on stderr what long work is at: on a terminal in one line that
// changes, else in a line every few seconds.
type progress struct {
	w        io.Writer
	quiet    bool
	terminal bool
	last     time.Time
	width    int
}

// betweenLines passes before the next line, where it is not a terminal.
const betweenLines = 5 * time.Second

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, quiet: quiet, last: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) say(format string, args ...any) { p.tell(fmt.Sprintf(format, args...)) }

// tell tells what is being done.
func (p *progress) tell(text string) {
	if p.quiet {
		return
	}
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r%-*s", p.width, text)
		p.width = len(text)
	case time.Since(p.last) > betweenLines:
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

// warn says what slows training down, and lets a run say what it doubts.
func (f *execFlags) warn(stderr io.Writer) {
	if f.quiet {
		return
	}
	if f.Measure.Devices.Backend == "go" && !backend.SIMDCompiled {
		fmt.Fprintln(stderr, "psim: built without GOEXPERIMENT=simd, so that training takes about ten times as long as it could")
	}
	f.Warn = func(what string) { fmt.Fprintln(stderr, "psim:", visible(what)) }
}
