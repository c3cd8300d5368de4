package processes

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A door is where the other processes of a run connect. It lets in who knows its
// token.
type door struct {
	listener net.Listener
	token    string
	arrivals chan arrival
	closed   chan struct{}
	guests   sync.WaitGroup
}

// An arrival is a connection that was let in, and what the other side said of itself.
type arrival struct {
	*link
	purpose string
	process Process
}

// A greeting is what a process says when it connects.
type greeting struct {
	Token   string // of the process that it connects to
	Process Process
}

// The purposes of a connection.
const (
	toJoin    = "join"    // tell who takes part, and hear it
	toControl = "control" // say how it goes
	toWire    = "wire"    // carry messages
)

// patience bounds how long the processes of a run may take to find each other.
const patience = 30 * time.Second

// openDoor listens on a host, or all of this machine's addresses where it is empty.
func openDoor(host string) (*door, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listening for the other processes: %w", err)
	}
	d := &door{listener: listener, token: rand.Text(), arrivals: make(chan arrival), closed: make(chan struct{})}
	d.guests.Go(d.accept)
	return d, nil
}

func (d *door) accept() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.guests.Go(func() { d.greet(conn) })
	}
}

// greet lets a connection in that knows the token, and answers with its own.
func (d *door) greet(conn net.Conn) {
	a := arrival{link: newLink(conn)}
	if err := a.welcome(d); err != nil {
		conn.Close()
		return
	}
	select {
	case d.arrivals <- a:
	case <-d.closed:
		conn.Close()
	}
}

func (a *arrival) welcome(d *door) error {
	defer closeWhen(d.closed, a.conn)()
	a.conn.SetDeadline(time.Now().Add(patience))
	defer a.conn.SetDeadline(time.Time{})
	f, err := readFrame(a.r)
	if err != nil {
		return err
	}
	var g greeting
	if err := json.Unmarshal(f.data, &g); err != nil {
		return err
	}
	if f.kind != hello || subtle.ConstantTimeCompare([]byte(g.Token), []byte(d.token)) != 1 {
		return errors.New("a stranger")
	}
	a.purpose, a.process = f.key, g.Process
	return a.send(frame{kind: welcome, data: []byte(g.Process.Token)})
}

// next waits for a connection.
func (d *door) next(ctx context.Context) (arrival, error) {
	select {
	case a := <-d.arrivals:
		return a, nil
	case <-ctx.Done():
		return arrival{}, context.Cause(ctx)
	}
}

func (d *door) close() {
	close(d.closed)
	d.listener.Close()
	d.guests.Wait()
}

// dial connects to a process at the first of its addresses where it is.
func dial(ctx context.Context, to Process, purpose string, from Process) (l *link, err error) {
	data, err := json.Marshal(greeting{to.Token, from})
	if err != nil {
		return nil, err
	}
	err = errors.New("it has no address")
	for _, address := range to.Addresses {
		var conn net.Conn
		if conn, err = (&net.Dialer{Timeout: patience / 3}).DialContext(ctx, "tcp", address); err != nil {
			continue
		}
		l = newLink(conn)
		if err = l.knock(ctx, frame{hello, purpose, data}, from.Token); err == nil {
			return l, nil
		}
		conn.Close()
	}
	return nil, fmt.Errorf("connecting to %s: %w", to, err)
}

// knock sends a greeting, and checks the answer.
func (l *link) knock(ctx context.Context, f frame, token string) error {
	defer closeWhen(ctx.Done(), l.conn)()
	if err := l.send(f); err != nil {
		return err
	}
	answer, err := readFrame(l.r)
	if err == nil && (answer.kind != welcome || subtle.ConstantTimeCompare(answer.data, []byte(token)) != 1) {
		err = errors.New("something else answers there")
	}
	return err
}

// closeWhen closes a connection when done does, until stop is called.
func closeWhen(done <-chan struct{}, conn net.Conn) (stop func()) {
	stopped := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-done:
			conn.Close()
		case <-stopped:
		}
	})
	return func() {
		close(stopped)
		watching.Wait()
	}
}
