package processes

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Every process tells the others each beat how much has begun or ended in it. What was
// not heard for fresh beats is not known.
const (
	pulse = 200 * time.Millisecond
	fresh = 5 * pulse
)

// A peer holds what is known of another process.
type peer struct {
	silent   time.Duration // since something was heard of it
	still    time.Duration // since its progress has changed
	progress uint64
	left     bool // it said goodbye
	lost     bool // it has gone, or does not answer
	ended    bool // the run, and says why before it goes
}

// A notice says why a run ends.
type notice struct {
	Process int           // whose fault it is
	Lost    bool          // it has gone, or does not answer
	Silent  time.Duration // for how long nothing was heard of it
	Text    string

	Interrupted bool // somebody has interrupted it
	Usage       bool // flags or settings are wrong
}

func (n notice) frame() frame {
	data, _ := json.Marshal(n) // of plain fields, which cannot fail
	return frame{kind: abort, data: data}
}

// watch sends beats and counts how long the others were silent, until the process
// leaves. While this process itself is stopped, no time counts.
func (w *World) watch() {
	ticker := time.NewTicker(pulse / 2)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-w.left:
			return
		case <-ticker.C:
		}
		gap := time.Since(last)
		last = time.Now()
		if w.gaveUp(gap) {
			w.woke.Store(int64(time.Since(w.began)))
		}
		w.ticked.Store(int64(time.Since(w.began)))
		passed := min(gap, pulse)
		if k, silent := w.count(passed); silent > 0 {
			w.lose(k, silent, "")
		}
	}
}

// count adds to how long the others were silent, and names one for which that is too
// long.
func (w *World) count(passed time.Duration) (k int, silent time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.peers {
		p := &w.peers[k]
		p.silent += passed
		p.still += passed
		if k == w.Rank {
			p.silent = 0
			p.moved(w.progress.Load())
		}
		if w.options.Stall > 0 && p.silent >= w.options.Stall && !p.left && w.cause == nil {
			return k, p.silent.Round(pulse / 2)
		}
	}
	return 0, 0
}

// moved notes a process's progress.
func (p *peer) moved(progress uint64) {
	if p.progress != progress {
		p.progress, p.still = progress, 0
	}
}

// beats tells one process of the progress here, until either leaves.
func (w *World) beats(l *link) {
	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	for {
		data := binary.AppendUvarint(nil, w.progress.Load())
		if l.send(frame{kind: beat, data: data}) != nil {
			return
		}
		select {
		case <-w.left:
			return
		case <-ticker.C:
		}
	}
}

// Still reports whether nothing has begun or ended for that long in any process. It
// does not while one of them does not answer: that ends the run with an error of its
// own.
func (w *World) Still(d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.peers {
		p := &w.peers[k]
		if k == w.Rank {
			p.moved(w.progress.Load())
		}
		if !p.left && (p.still < d || p.silent > fresh) {
			return false
		}
	}
	return true
}

// Stuck is closed when one of the processes has called TellStuck.
func (w *World) Stuck() <-chan struct{} { return w.stuck }

// TellStuck tells all processes that nothing happens in any, so that each can say at once
// what it waits for.
func (w *World) TellStuck() {
	if w.hearStuck() {
		w.control.each(func(_ int, l *link) { l.send(frame{kind: still}) })
	}
}

// hearStuck notes it, and reports whether that is news.
func (w *World) hearStuck() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.stuck:
		return false
	default:
		close(w.stuck)
		return true
	}
}

// Busy notes progress until rest is called, of work that none of it is noted of: this
// process is not stuck meanwhile, and the others have to wait.
func (w *World) Busy() (rest func()) {
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(pulse)
		defer ticker.Stop()
		for {
			w.Progress()
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	return func() {
		close(done)
		ticking.Wait()
	}
}

// listen reads what a process says of itself, until it leaves or is lost.
func (w *World) listen(k int, l *link) {
	var gone bool
	l.read(func(f frame) bool {
		w.heard(k)
		switch f.kind {
		case beat:
			if progress, n := binary.Uvarint(f.data); n > 0 {
				w.mu.Lock()
				w.peers[k].moved(progress)
				w.mu.Unlock()
			}
		case ring:
			if w.announced != nil {
				w.announced()
			}
		case still:
			w.hearStuck()
		case abort:
			w.ordered(k, f.data)
		case bye:
			w.mu.Lock()
			w.peers[k].left = true
			w.mu.Unlock()
			gone = true
			l.finish()
		}
		return !gone
	})
	select {
	case <-w.left:
	default:
		if !gone {
			w.lose(k, 0, "")
		}
	}
}

// heard notes that a process lives.
func (w *World) heard(k int) {
	w.mu.Lock()
	w.peers[k].silent = 0
	w.mu.Unlock()
}

// ordered ends the run as another process says.
func (w *World) ordered(from int, data []byte) {
	var n notice
	if err := json.Unmarshal(data, &n); err != nil || n.Process < 0 || n.Process >= w.Size {
		n = notice{Process: from, Text: "for a reason that it could not tell"}
	}
	if !n.Lost && n.Process == from {
		w.mu.Lock()
		w.peers[from].ended = true
		w.mu.Unlock()
	}
	switch {
	case n.Lost && n.Process == w.Rank: // and the others have said so
		w.mu.Lock()
		w.mute = true
		w.mu.Unlock()
		n.Text = fmt.Sprintf("the others have not heard of it for %v, and gave it up", n.Silent)
	case n.Lost:
		w.lose(n.Process, n.Silent, n.Text)
		return
	}
	w.fail(&AbortError{w.Processes()[n.Process], n.Text, n.Interrupted, n.Usage}, n)
}

// lose ends the run because a process has gone or does not answer.
func (w *World) lose(k int, silent time.Duration, how string) {
	w.mu.Lock()
	w.peers[k].lost = true
	w.mu.Unlock()
	if silent == 0 && w.children.interrupted() { // as this process is: nobody was lost
		w.Abort(context.Canceled)
		return
	}
	if silent == 0 && how == "" {
		how = w.children.how(k)
	}
	w.Abort(&LostError{Process: w.Processes()[k], Silent: silent, How: how})
}

// collect puts the messages of a process into the mailbox.
func (w *World) collect(k int, l *link) {
	err := l.read(func(f frame) bool {
		w.deliver(k, f.key, f.data)
		return true
	})
	w.broken(k, err)
}

// deliver puts a message into the mailbox.
func (w *World) deliver(from int, key string, data []byte) {
	if err := w.box.put(address{from, key}, data); err != nil {
		w.torn(err)
	}
}

// broken ends the run where a connection for messages ends before the process leaves.
// Why it did so is said on the other one.
func (w *World) broken(k int, why error) {
	select {
	case <-w.left:
		return
	case <-w.ended:
		return
	case <-time.After(found):
	}
	w.mu.Lock()
	left := w.peers[k].left
	w.mu.Unlock()
	if !left {
		w.torn(fmt.Errorf("the connection to %s has ended: %w", w.Processes()[k], why))
	}
}
