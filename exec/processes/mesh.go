package processes

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// A mesh has a connection to every other process.
type mesh struct {
	links []*link // by process; nil for itself
}

// A link is a connection, to which frames are written one at a time.
type link struct {
	conn net.Conn
	r    *bufio.Reader
	mu   sync.Mutex
	off  bool // nothing is written any more
}

// errOff says that a link is closed on this side.
var errOff = errors.New("the connection is closed")

// newLink wraps a connection.
func newLink(conn net.Conn) *link { return &link{conn: conn, r: bufio.NewReaderSize(conn, 1<<16)} }

func (l *link) send(f frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off {
		return errOff
	}
	return f.writeTo(l.conn)
}

// finish writes no more, after a last frame where there is one. The other side may
// write on.
func (l *link) finish(last ...frame) {
	l.conn.SetWriteDeadline(time.Now().Add(settle)) // who does not read must not hold this
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.off {
		return
	}
	l.off = true
	for _, f := range last {
		f.writeTo(l.conn)
	}
	if c, ok := l.conn.(*net.TCPConn); ok {
		c.CloseWrite()
	}
}

// each calls what for every link at the same time.
func (m *mesh) each(what func(k int, l *link)) {
	var all sync.WaitGroup
	for k, l := range m.links {
		if l != nil {
			all.Go(func() { what(k, l) })
		}
	}
	all.Wait()
}

// tell sends a frame to all, as far as they read.
func (m *mesh) tell(f frame) {
	m.each(func(_ int, l *link) {
		l.conn.SetWriteDeadline(time.Now().Add(settle))
		l.send(f)
	})
}

// leave says goodbye to all. The connections close when the others have done so too,
// or after a while.
func (m *mesh) leave() {
	m.each(func(_ int, l *link) {
		l.conn.SetReadDeadline(time.Now().Add(farewell))
		l.finish(frame{kind: bye})
	})
}

// farewell bounds how long a process that leaves waits for the others to notice.
const farewell = 2 * time.Second

// read calls handle for every frame of a link until it ends, and returns why: nil
// when handle says so.
func (l *link) read(handle func(frame) bool) error {
	defer l.conn.Close()
	for {
		f, err := readFrame(l.r)
		if err != nil {
			return err
		}
		if !handle(f) {
			return nil
		}
	}
}

// Send sends a message to another process.
func (m *mesh) Send(to int, key string, data []byte) error {
	return m.links[to].send(frame{message, key, data})
}

// Close writes no more; what was written still arrives.
func (m *mesh) Close() {
	m.each(func(_ int, l *link) {
		l.conn.SetReadDeadline(time.Now().Add(farewell))
		l.finish()
	})
}

// Break closes all connections.
func (m *mesh) Break(bool) { m.each(func(_ int, l *link) { l.conn.Close() }) }
