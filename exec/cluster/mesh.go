package cluster

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// A mesh is a connection to every other process.
type mesh struct {
	links []*link // by process; nil for this one
}

// A link is a connection, to which frames are written one at a time.
type link struct {
	conn   net.Conn
	r      *bufio.Reader
	mu     sync.Mutex
	closed bool // no more is written
}

// errClosed says that a link is closed on this side.
var errClosed = errors.New("the connection is closed")

// newLink wraps a connection.
func newLink(conn net.Conn) *link { return &link{conn: conn, r: bufio.NewReaderSize(conn, 1<<16)} }

func (l *link) send(f frame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	return f.writeTo(l.conn)
}

// finish ends writing, after an optional last frame. The other side may go on writing.
func (l *link) finish(last ...frame) {
	l.conn.SetWriteDeadline(time.Now().Add(causeWait)) // the other side may not be reading
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
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

// sendAll sends a frame to all processes that are reading.
func (m *mesh) sendAll(f frame) {
	m.each(func(_ int, l *link) {
		l.conn.SetWriteDeadline(time.Now().Add(causeWait))
		l.send(f)
	})
}

// leave says goodbye to all processes. Connections close when the others have done so too, or
// after a while.
func (m *mesh) leave() {
	m.each(func(_ int, l *link) {
		l.conn.SetReadDeadline(time.Now().Add(farewellTime))
		l.finish(frame{kind: bye})
	})
}

// farewellTime bounds how long a process that leaves waits for the others to notice.
const farewellTime = 2 * time.Second

// read calls handle for every frame of a link until handle returns false or the link ends, and
// returns why it ended.
func (l *link) read(handle func(frame) bool) error {
	defer l.conn.Close()
	for {
		f, err := readFrame(l.r, longestFrame)
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

// Close ends writing; what was written still arrives.
func (m *mesh) Close() {
	m.each(func(_ int, l *link) {
		l.conn.SetReadDeadline(time.Now().Add(farewellTime))
		l.finish()
	})
}

// Break closes all connections.
func (m *mesh) Break(bool) { m.each(func(_ int, l *link) { l.conn.Close() }) }
