package exec

import (
	"context"
	"strings"
	"time"
)

// How long the first of several processes that are stuck waits for what the others say of
// themselves, and how long they wait for the first.
const (
	collecting = time.Second
	deferring  = 2 * time.Second
)

// stuckKey finds what a process says of its tasks when nothing happens in any.
const stuckKey = "stuck"

// stuckAmong ends the run as stuck, with what everything waits for in all processes: the
// first of them collects that and ends the run for all.
func (r *runner) stuckAmong(ctx context.Context, ended <-chan struct{}, stall time.Duration) {
	e := r.stuck(stall)
	if r.share == nil {
		r.cancel(e)
		return
	}
	r.share.world.TellStuck()
	if w := r.share.world; w.Rank > 0 {
		w.Send(0, stuckKey, []byte(e.lines())) // an error ends the run by itself
		select {
		case <-ended:
		case <-ctx.Done():
		case <-time.After(deferring):
		}
	} else {
		late, cancel := context.WithTimeout(ctx, collecting)
		for k := 1; k < w.Size; k++ {
			lines, _ := w.Receive(late, k, stuckKey) // none of what has not come
			for line := range strings.SplitAfterSeq(string(lines), "\n") {
				if line = strings.TrimSpace(line); line != "" && !strings.Contains(e.lines(), line) {
					e.Elsewhere += "\n  " + line
				}
			}
		}
		cancel()
	}
	r.cancel(e)
}
