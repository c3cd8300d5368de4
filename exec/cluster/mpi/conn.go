//go:build mpi

package mpi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Compiled reports whether this program is built with MPI.
const Compiled = true

// A Conn is this process's part in MPI's world. One goroutine makes all calls of MPI except the
// first and the last, on whatever thread it runs. With a thread of its own that waits in C,
// other goroutines would get their turn only when Go's scheduler notices, up to 10 ms later.
type Conn struct {
	Rank, Size int

	bell     chan struct{} // with room for one: full while there is something to do
	broken   chan struct{}
	breaking sync.Once

	mu    sync.Mutex
	calls []func(*loop)
	ended chan struct{} // closed when MPI's world was left

	deliver func(from int, key string, data []byte)
	fail    func(error)
}

// Open joins MPI's world.
func Open() (*Conn, error) {
	c := &Conn{bell: make(chan struct{}, 1), broken: make(chan struct{}), ended: make(chan struct{})}
	opened := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread that begins MPI has to end it
		defer close(c.ended)
		var err error
		c.Rank, c.Size, err = initialize()
		opened <- err
		if err != nil {
			return
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			(&loop{Conn: c}).run()
		}()
		<-left
		finalize()
	}()
	return c, <-opened
}

// post lets the goroutine do something.
func (c *Conn) post(what func(*loop)) {
	c.mu.Lock()
	c.calls = append(c.calls, what)
	c.mu.Unlock()
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

// Exchange returns the data of all processes, by rank. All processes call it, before Start.
func (c *Conn) Exchange(mine []byte) (all [][]byte, err error) {
	done := make(chan struct{})
	c.post(func(*loop) {
		all, err = gather(c.Size, mine)
		close(done)
	})
	<-done
	return all, err
}

// Start begins to receive. Errors of MPI go to fail, which must not block.
func (c *Conn) Start(deliver func(from int, key string, data []byte), fail func(error)) {
	c.post(func(l *loop) { c.deliver, c.fail = deliver, fail })
}

// errBroken says that no more messages are sent.
var errBroken = errors.New("the run has ended")

// Send sends a message, and returns when data may be used again.
func (c *Conn) Send(to int, key string, data []byte) error {
	done := make(chan error, 1)
	c.post(func(l *loop) { l.send(to, key, data, done) })
	select {
	case err := <-done:
		return err
	case <-c.broken:
		return errBroken
	}
}

// Announce says that a message is on its way to this process. Without it, a message is noticed
// late.
func (c *Conn) Announce() { c.post(func(l *loop) { l.announced++ }) }

// Close leaves MPI's world, together with all other processes.
func (c *Conn) Close() {
	c.post(func(l *loop) { l.leaving = true })
	select {
	case <-c.ended:
	case <-c.broken:
	}
}

// Break makes Send return at once. If processes are stuck, it ends all processes of MPI's
// world, this one included.
func (c *Conn) Break(stuck bool) {
	c.breaking.Do(func() { close(c.broken) })
	if stuck {
		c.post(func(*loop) { abort() })
		time.Sleep(time.Second)
	}
}

// The tags of messages. A head has the key, and the data if these are small. Large data follow
// in a message of their own.
const (
	tagHead = 1
	tagData = 2
	small   = 4 << 10
)

// A loop is the state of the goroutine that calls MPI.
type loop struct {
	*Conn
	inFlight []*transmission
	leaving  bool
	failed   bool // MPI has failed and is not called again
	// announced counts the messages that were announced but did not arrive yet. It is negative if
	// messages arrived before their announcements.
	announced int
}

// A transmission is a message in flight, and what to do when it has arrived.
type transmission struct {
	transfer
	end func(error)
}

// run sends and receives until this process leaves.
func (l *loop) run() {
	for last := time.Now(); ; {
		happened, err := l.poll()
		if l.leaving && len(l.inFlight) == 0 {
			return
		}
		switch {
		case err != nil:
			l.failed = true
			l.fail(err)
		case happened:
			last = time.Now()
		default:
			l.sleep(time.Since(last))
		}
	}
}

// How long the goroutine sleeps: while something is in flight, and otherwise.
const (
	shortest = 20 * time.Microsecond
	longest  = time.Millisecond
	idle     = 100 * time.Millisecond
)

// sleep sleeps until there is something to do or to look for. Messages in flight advance only
// when MPI is called. While there are some, sleep takes a 64th of the time since something last
// happened, and at most a millisecond; so no message is late by more than that share.
func (l *loop) sleep(still time.Duration) {
	d := idle
	if !l.failed && (l.announced > 0 || len(l.inFlight) > 0) {
		if d = max(shortest, still/64); d < longest { // Go's own timers are not finer
			nap(d)
			runtime.Gosched() // other goroutines waiting for this thread go first
			return
		}
		d = longest
	}
	select {
	case <-l.bell:
	case <-time.After(d):
	}
}

// poll does what there is to do, and reports whether anything happened.
func (l *loop) poll() (happened bool, err error) {
	l.mu.Lock()
	calls := l.calls
	l.calls = nil
	l.mu.Unlock()
	for _, what := range calls {
		what(l)
	}
	if l.failed {
		return len(calls) > 0, nil
	}
	received, err := l.receive()
	if err != nil {
		return false, err
	}
	passed, err := l.finish()
	return len(calls) > 0 || received || passed, err
}

// send begins to send a message.
func (l *loop) send(to int, key string, data []byte, done chan<- error) {
	head := binary.AppendUvarint(nil, uint64(len(key)))
	head = append(head, key...)
	head = binary.AppendUvarint(head, uint64(len(data)))
	p := &transmission{end: func(err error) { done <- err }}
	if len(data) <= small {
		head, data = append(head, data...), nil
	}
	err := p.add(true, head, to, tagHead)
	if err == nil && len(data) > 0 {
		err = p.add(true, data, to, tagData)
	}
	if err != nil {
		done <- err
		return
	}
	l.inFlight = append(l.inFlight, p)
}

// receive takes in the next head, if one has arrived. Data that follow heads are received in
// the order of the heads, which is the order in which they were sent.
func (l *loop) receive() (bool, error) {
	if l.deliver == nil {
		return false, nil
	}
	from, head, found, err := next(tagHead)
	if err != nil || !found {
		return false, err
	}
	l.announced--
	key, n, rest, err := parseHead(head)
	if err != nil {
		return false, fmt.Errorf("from process %d: %w", from, err)
	}
	if n <= small {
		l.deliver(from, key, rest)
		return true, nil
	}
	data := make([]byte, n)
	p := &transmission{end: func(error) { l.deliver(from, key, data) }}
	l.inFlight = append(l.inFlight, p)
	return true, p.add(false, data, from, tagData)
}

// parseHead splits a head into the key, the length of the data, and the data if they are small.
func parseHead(head []byte) (key string, n uint64, rest []byte, err error) {
	bad := errors.New("a message without a proper head")
	length, k := binary.Uvarint(head)
	if k <= 0 || length > uint64(len(head)-k) {
		return "", 0, nil, bad
	}
	key, rest = string(head[k:][:length]), head[k:][length:]
	n, k = binary.Uvarint(rest)
	if k <= 0 {
		return "", 0, nil, bad
	}
	rest = rest[k:]
	if n <= small && n != uint64(len(rest)) || n > small && len(rest) > 0 || n > 1<<40 {
		return "", 0, nil, bad
	}
	return key, n, rest, nil
}

// finish ends the transmissions that are complete.
func (l *loop) finish() (happened bool, err error) {
	left := l.inFlight[:0]
	for _, p := range l.inFlight {
		done, err := p.done()
		switch {
		case err != nil:
			p.end(err)
			return false, err
		case done:
			p.end(nil)
			happened = true
		default:
			left = append(left, p)
		}
	}
	clear(l.inFlight[len(left):])
	l.inFlight = left
	return happened, nil
}
