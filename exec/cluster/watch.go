package cluster

import (
	"encoding/binary"
	"sync"
	"time"
)

// Every process sends the others a beat with its progress at this interval. A progress that is
// older than staleAfter counts as unknown.
const (
	beatInterval = 200 * time.Millisecond
	staleAfter   = 5 * beatInterval
)

// A peer holds what this process knows about another one.
type peer struct {
	silent   time.Duration // since it was last heard
	still    time.Duration // since its progress last changed
	progress uint64
	left     bool // it said goodbye
	lost     bool // it has gone, or does not answer
	ended    bool // it ended the run, and still tells why
}

// watch counts how long the other processes are silent, until this process leaves. Time during
// which this process itself is stopped does not count.
func (w *World) watch() {
	ticker := time.NewTicker(beatInterval / 2)
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
		if w.isTooLong(gap) {
			w.resumed.Store(int64(time.Since(w.began)))
		}
		w.lastTick.Store(int64(time.Since(w.began)))
		passed := min(gap, beatInterval)
		if k, silent := w.count(passed); silent > 0 {
			w.loseMember(k, silent, "")
		}
	}
}

// count adds to the silence of the other processes. It returns one that has been silent for too
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
			return k, p.silent.Round(beatInterval / 2)
		}
	}
	return 0, 0
}

// moved notes the progress of a process.
func (p *peer) moved(progress uint64) {
	if p.progress != progress {
		p.progress, p.still = progress, 0
	}
}

// beats sends beats to one process until either of the two leaves.
func (w *World) beats(l *link) {
	ticker := time.NewTicker(beatInterval)
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

// Still reports whether nothing has begun or ended for that long in any process. It returns
// false while a process does not answer, because that ends the run with an error of its own.
func (w *World) Still(d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.peers {
		p := &w.peers[k]
		if k == w.Rank {
			p.moved(w.progress.Load())
		}
		if !p.left && (p.still < d || p.silent > staleAfter) {
			return false
		}
	}
	return true
}

// Stuck is closed when one of the processes has called TellStuck.
func (w *World) Stuck() <-chan struct{} { return w.stuck }

// TellStuck tells all processes that nothing happens in any of them, so that each can report
// what it waits for.
func (w *World) TellStuck() {
	if w.hearStuck() {
		w.control.each(func(_ int, l *link) { l.send(frame{kind: stuck}) })
	}
}

// hearStuck notes that the run is stuck, and reports whether that was not known before.
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

// Busy counts as progress until rest is called, for work that notes none. This process is not
// stuck then, and the others wait.
func (w *World) Busy() (rest func()) {
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		ticker := time.NewTicker(beatInterval)
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

// listen reads the news of a process until that leaves or is lost.
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
		case announce:
			if w.announced != nil {
				w.announced()
			}
		case stuck:
			w.hearStuck()
		case abort:
			w.handleAbort(k, f.data)
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
			w.loseMember(k, 0, "")
		}
	}
}

// heard notes that a process is alive.
func (w *World) heard(k int) {
	w.mu.Lock()
	w.peers[k].silent = 0
	w.mu.Unlock()
}

// collect puts the messages of a process into the mailbox.
func (w *World) collect(k int, l *link) {
	err := l.read(func(f frame) bool {
		w.deliver(k, f.key, f.data)
		return true
	})
	w.connectionEnded(k, err)
}

// deliver puts a message into the mailbox.
func (w *World) deliver(from int, key string, data []byte) {
	if err := w.box.put(address{from, key}, data); err != nil {
		w.failMessages(err)
	}
}
