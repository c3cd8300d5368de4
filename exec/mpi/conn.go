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

// A Conn is this process's part in MPI's world. One goroutine makes all calls of MPI, but
// the first and the last, in whatever thread it is: a thread of its own that waits in C keeps
// its turn from others until Go's scheduler notices, up to 10 ms later.
type Conn struct {
	Rank, Size int

	bell     chan struct{} // has room for one; full where there is something to do
	broken   chan struct{}
	breaking sync.Once

	mu    sync.Mutex
	calls []func(*loop)
	ended chan struct{} // MPI's world was left

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

// call has the goroutine do something.
func (c *Conn) call(what func(*loop)) {
	c.mu.Lock()
	c.calls = append(c.calls, what)
	c.mu.Unlock()
	select {
	case c.bell <- struct{}{}:
	default:
	}
}

// Exchange returns what every process gives, by process. All call it, before Start.
func (c *Conn) Exchange(mine []byte) (all [][]byte, err error) {
	done := make(chan struct{})
	c.call(func(*loop) {
		all, err = gather(c.Size, mine)
		close(done)
	})
	<-done
	return all, err
}

// Start begins to receive. An error of MPI goes to fail, which must not wait.
func (c *Conn) Start(deliver func(from int, key string, data []byte), fail func(error)) {
	c.call(func(l *loop) { c.deliver, c.fail = deliver, fail })
}

// errBroken says that no message is sent any more.
var errBroken = errors.New("the run has ended")

// Send sends a message, and returns when data may be used again.
func (c *Conn) Send(to int, key string, data []byte) error {
	done := make(chan error, 1)
	c.call(func(l *loop) { l.send(to, key, data, done) })
	select {
	case err := <-done:
		return err
	case <-c.broken:
		return errBroken
	}
}

// Announce says that a message is on its way here. Others are found late.
func (c *Conn) Announce() { c.call(func(l *loop) { l.announced++ }) }

// Close leaves MPI's world, when all other processes do.
func (c *Conn) Close() {
	c.call(func(l *loop) { l.leaving = true })
	select {
	case <-c.ended:
	case <-c.broken:
	}
}

// Break makes no Send wait any more. Where processes are stuck, it has all of MPI's
// world ended, with this one.
func (c *Conn) Break(stuck bool) {
	c.breaking.Do(func() { close(c.broken) })
	if stuck {
		c.call(func(*loop) { abort() })
		time.Sleep(time.Second)
	}
}

// The tags of messages: a head has the key, and the data where that is small; large
// data follow as a message of their own.
const (
	tagHead = 1
	tagData = 2
	small   = 4 << 10
)

// A loop is the state of the goroutine.
type loop struct {
	*Conn
	under   []*passing // way
	leaving bool
	failed  bool // MPI did, and is not asked again
	// announced counts the messages to come; below 0 are those that came before word
	// of them.
	announced int
}

// A passing is a message under way, and what to do at its end.
type passing struct {
	transfer
	end func(error)
}

// run sends and receives until this process leaves.
func (l *loop) run() {
	for last := time.Now(); ; {
		happened, err := l.look()
		if l.leaving && len(l.under) == 0 {
			return
		}
		switch {
		case err != nil:
			l.failed = true
			l.fail(err)
		case happened:
			last = time.Now()
		default:
			l.rest(time.Since(last))
		}
	}
}

// How long nothing is looked for: while something is under way, and where nothing is.
const (
	shortest = 20 * time.Microsecond
	longest  = time.Millisecond
	idle     = 100 * time.Millisecond
)

// rest sleeps until there is something to do, or to look for. What is under way advances
// only when MPI looks; while something is, rest takes a 64th of the time that nothing has
// happened, so that what comes is late by no more than that, and a millisecond at most.
func (l *loop) rest(still time.Duration) {
	d := idle
	if !l.failed && (l.announced > 0 || len(l.under) > 0) {
		if d = max(shortest, still/64); d < longest { // Go's own timers are no finer
			nap(d)
			runtime.Gosched() // what waits for this thread goes first
			return
		}
		d = longest
	}
	select {
	case <-l.bell:
	case <-time.After(d):
	}
}

// look does what there is to do, and reports whether there was something.
func (l *loop) look() (happened bool, err error) {
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
	passed, err := l.pass()
	return len(calls) > 0 || received || passed, err
}

// send begins to send a message.
func (l *loop) send(to int, key string, data []byte, done chan<- error) {
	head := binary.AppendUvarint(nil, uint64(len(key)))
	head = append(head, key...)
	head = binary.AppendUvarint(head, uint64(len(data)))
	p := &passing{end: func(err error) { done <- err }}
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
	l.under = append(l.under, p)
}

// receive takes in the next head, if one has come. Data that follow it are received
// in the order of heads, as they were sent.
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
	p := &passing{end: func(error) { l.deliver(from, key, data) }}
	l.under = append(l.under, p)
	return true, p.add(false, data, from, tagData)
}

// parseHead takes a head apart: key, length of the data, and the data if they are
// small.
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

// pass ends what has been passed on.
func (l *loop) pass() (happened bool, err error) {
	left := l.under[:0]
	for _, p := range l.under {
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
	clear(l.under[len(left):])
	l.under = left
	return happened, nil
}
