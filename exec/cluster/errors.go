package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Member is one process of a run.
type Member struct {
	Rank int    // 0 is the first
	Host string // the name of the machine
	PID  int
	// LocalRank numbers the processes of the same host, from 0.
	LocalRank int
	// Ranks are the ranks of the graph that it runs, once they are divided.
	Ranks []int

	Version   string   // of psim
	Addresses []string // where it can be reached
	Token     string   // what a connection to it must present
}

// String names the process, its host and its ranks.
func (p Member) String() string {
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

// A LostError says which process has gone without a notice, or does not answer.
type LostError struct {
	Process Member
	Silent  time.Duration // for how long it was silent; 0 if it has gone
	How     string        // how it ended, if that is known
}

// Error names the process, and says how it ended if that is known.
func (e *LostError) Error() string {
	if e.Silent > 0 {
		return fmt.Sprintf("%s does not answer: nothing was heard from it for %v", e.Process, e.Silent)
	}
	text := e.Process.String() + " was lost: it ended without a message"
	if e.How != "" {
		text += " (" + e.How + ")"
	}
	return text
}

// An AbortError is an error with which another process ended the run.
type AbortError struct {
	Process     Member
	Text        string
	Interrupted bool // the user interrupted it
	Usage       bool // Options.Usage says that it is about flags or settings
}

// Unwrap returns context.Canceled for an interrupt.
func (e *AbortError) Unwrap() error {
	if e.Interrupted {
		return context.Canceled
	}
	return nil
}

// Error is the message of the other process, with its name.
func (e *AbortError) Error() string {
	if strings.Contains(e.Text, "\n") {
		return fmt.Sprintf("%s ended the run:\n%s", e.Process, e.Text)
	}
	return fmt.Sprintf("%s ended the run: %s", e.Process, e.Text)
}
