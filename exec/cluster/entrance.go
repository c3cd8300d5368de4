package cluster

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

// An entrance is where the other processes of a run connect. It admits those that know its
// token.
type entrance struct {
	listener   net.Listener
	token      string
	arrivals   chan arrival
	closed     chan struct{}
	handshakes sync.WaitGroup
}

// An arrival is a connection that was admitted, and the process on the other side.
type arrival struct {
	*link
	purpose string
	process Member
}

// A greeting is the first message of a process that connects.
type greeting struct {
	Token   string // of the process that it connects to
	Process Member
}

// The purposes of a connection.
const (
	toJoin    = "join"    // exchange the list of processes
	toControl = "control" // exchange news of the processes
	toWire    = "wire"    // carry messages
)

// meetingTime bounds how long the processes of a run may take to find each other.
const meetingTime = 30 * time.Second

// openEntrance listens on a host, or on all addresses of this machine if the host is empty.
func openEntrance(host string) (*entrance, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listening for the other processes: %w", err)
	}
	d := &entrance{
		listener: listener, token: rand.Text(), arrivals: make(chan arrival), closed: make(chan struct{}),
	}
	d.handshakes.Go(d.accept)
	return d, nil
}

// accept answers connections until the entrance is closed.
func (d *entrance) accept() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.handshakes.Go(func() { d.handshake(conn) })
	}
}

// handshake admits a connection that presents the token.
func (d *entrance) handshake(conn net.Conn) {
	a := arrival{link: newLink(conn)}
	if err := a.answer(d); err != nil {
		conn.Close()
		return
	}
	select {
	case d.arrivals <- a:
	case <-d.closed:
		conn.Close()
	}
}

// answer reads the greeting and answers with the token of the process that connects.
func (a *arrival) answer(d *entrance) error {
	defer closeWhen(d.closed, a.conn)()
	a.conn.SetDeadline(time.Now().Add(meetingTime))
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
		return errors.New("the token is wrong")
	}
	a.purpose, a.process = f.key, g.Process
	return a.send(frame{kind: welcome, data: []byte(g.Process.Token)})
}

// next waits for a connection.
func (d *entrance) next(ctx context.Context) (arrival, error) {
	select {
	case a := <-d.arrivals:
		return a, nil
	case <-ctx.Done():
		return arrival{}, context.Cause(ctx)
	}
}

func (d *entrance) close() {
	close(d.closed)
	d.listener.Close()
	d.handshakes.Wait()
}

// dial connects to a process, at the first of its addresses that answers as that process.
func dial(ctx context.Context, to Member, purpose string, from Member) (l *link, err error) {
	data, err := json.Marshal(greeting{to.Token, from})
	if err != nil {
		return nil, err
	}
	err = errors.New("it has no address")
	for _, address := range to.Addresses {
		var conn net.Conn
		if conn, err = (&net.Dialer{Timeout: meetingTime / 3}).DialContext(ctx, "tcp", address); err != nil {
			continue
		}
		l = newLink(conn)
		if err = l.introduce(ctx, frame{hello, purpose, data}, from.Token); err == nil {
			return l, nil
		}
		conn.Close()
	}
	return nil, fmt.Errorf("connecting to %s: %w", to, err)
}

// introduce sends a greeting and checks the answer.
func (l *link) introduce(ctx context.Context, f frame, token string) error {
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

// closeWhen closes a connection when done is closed, until stop is called.
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
