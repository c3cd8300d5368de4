package processes

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Process is one of a run.
type Process struct {
	Rank int    // 0 is the first
	Host string // as the machine calls itself
	PID  int
	// LocalRank counts the processes of the same host, from 0.
	LocalRank int
	// Ranks are those of the graph that it runs, once they were divided.
	Ranks []int

	Addresses []string // where it can be reached
	Token     string   // which it wants from who connects
}

// String names the process, where it is and what it runs.
func (p Process) String() string {
	where := fmt.Sprintf("pid %d on %s", p.PID, p.Host)
	switch n := len(p.Ranks); n {
	case 0:
	case 1:
		where += fmt.Sprintf(", rank %d", p.Ranks[0])
	default:
		where += fmt.Sprintf(", ranks %d to %d", p.Ranks[0], p.Ranks[n-1])
	}
	return fmt.Sprintf("process %d (%s)", p.Rank, where)
}

// A LostError says which process has gone without a word, or does not answer.
type LostError struct {
	Process Process
	Silent  time.Duration // for how long nothing was heard; 0 if it has gone
	How     string        // it ended, if that is known
}

// Error names the process and what is known of its end.
func (e *LostError) Error() string {
	if e.Silent > 0 {
		return fmt.Sprintf("%s does not answer: nothing was heard of it for %v", e.Process, e.Silent)
	}
	text := e.Process.String() + " was lost: it ended without a word"
	if e.How != "" {
		text += " (" + e.How + ")"
	}
	return text
}

// An AbortError is what another process has ended the run with.
type AbortError struct {
	Process     Process
	Text        string
	Interrupted bool // somebody has interrupted it
	Usage       bool // flags or settings are wrong, which Options.Usage tells
}

// Unwrap returns context.Canceled of an interrupt.
func (e *AbortError) Unwrap() error {
	if e.Interrupted {
		return context.Canceled
	}
	return nil
}

// Error is what the other process says, and who that is.
func (e *AbortError) Error() string {
	if strings.Contains(e.Text, "\n") {
		return fmt.Sprintf("%s ended the run:\n%s", e.Process, e.Text)
	}
	return fmt.Sprintf("%s ended the run: %s", e.Process, e.Text)
}
