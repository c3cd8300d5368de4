package cluster

import (
	"context"
	"crypto/rand"
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
	// tells makes processes with another token arrive as well, with an error: the user has given
	// the tokens, and one of them wrong.
	tells bool
}

// An arrival is a connection that was admitted, and the process on the other side.
type arrival struct {
	*link
	greeting
	purpose string
	refused error // the process knows another token, and was told so
}

// A greeting is what a process says of itself when it connects.
type greeting struct {
	Process Member
	Size    int // how many processes take part, as it was told
}

// The purposes of a connection.
const (
	toJoin    = "join"    // exchange the list of processes
	toControl = "control" // exchange news of the processes
	toWire    = "wire"    // carry messages
)

// meetingTime bounds how long the processes of a run may take to find each other.
const meetingTime = 30 * time.Second

// mostHandshakes bounds the connections that have not shown their token yet, and handshakeTime
// how long each of them may take to do so.
const (
	mostHandshakes = 64
	handshakeTime  = 10 * time.Second
)

// openEntrance listens on a host, or on all addresses of this machine if the host is empty.
func openEntrance(host string) (*entrance, error) {
	return openAt(net.JoinHostPort(host, "0"), rand.Text(), false)
}

// openAt listens at an address, for processes that know a token.
func openAt(address, token string, tells bool) (*entrance, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the other processes: %w", err)
	}
	d := &entrance{
		listener: listener, token: token, tells: tells, arrivals: make(chan arrival), closed: make(chan struct{}),
	}
	d.handshakes.Go(d.accept)
	return d, nil
}

// accept answers connections until the entrance is closed.
func (d *entrance) accept() {
	places := make(chan struct{}, mostHandshakes)
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		places <- struct{}{}
		d.handshakes.Go(func() { d.handshake(conn, places) })
	}
}

// handshake admits a connection that presents the token.
func (d *entrance) handshake(conn net.Conn, places <-chan struct{}) {
	a, err := d.answer(conn)
	<-places
	if err != nil {
		conn.Close()
		return
	}
	select {
	case d.arrivals <- a:
	case <-d.closed:
		conn.Close()
	}
}

// answer compares the tokens before it reads anything else, and then reads the greeting.
func (d *entrance) answer(conn net.Conn) (a arrival, err error) {
	defer closeWhen(d.closed, conn)()
	conn.SetDeadline(time.Now().Add(handshakeTime))
	defer conn.SetDeadline(time.Time{})
	switch err := readOpening(conn, d.token, asking); {
	case errors.Is(err, errToken) && d.tells:
		refusal{Text: otherToken, Usage: true}.frame().writeTo(conn)
		return arrival{link: &link{conn: conn}, refused: err}, nil
	case err != nil:
		return a, err
	}
	if _, err := conn.Write(opening(d.token, answering)); err != nil {
		return a, err
	}
	a.link = newLink(conn)
	f, err := readFrame(a.r, longestGreeting)
	switch {
	case err != nil:
		return a, err
	case f.kind != hello:
		return a, errors.New("it sends no greeting")
	}
	a.purpose = f.key
	return a, json.Unmarshal(f.data, &a.greeting)
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
	data, err := json.Marshal(greeting{Process: from})
	if err != nil {
		return nil, err
	}
	err = errors.New("it has no address")
	for _, address := range to.Addresses {
		var conn net.Conn
		if conn, err = (&net.Dialer{Timeout: meetingTime / 3}).DialContext(ctx, "tcp", address); err != nil {
			continue
		}
		if l, err = introduce(ctx, conn, to.Token, frame{hello, purpose, data}); err == nil {
			return l, nil
		}
		conn.Close()
	}
	return nil, fmt.Errorf("connecting to %s: %w", to, err)
}

// introduce shows the token, checks that the other side knows it too, and sends a greeting.
func introduce(ctx context.Context, conn net.Conn, token string, greeting frame) (l *link, err error) {
	defer closeWhen(ctx.Done(), conn)()
	conn.SetDeadline(time.Now().Add(2 * handshakeTime)) // the other side may have many to answer
	defer conn.SetDeadline(time.Time{})
	if _, err := conn.Write(opening(token, asking)); err != nil {
		return nil, err
	}
	l = newLink(conn)
	first, err := l.r.Peek(1)
	switch {
	case err != nil:
		return nil, fmt.Errorf("psim does not answer there: %w", err)
	case first[0] == refuse:
		f, err := readFrame(l.r, longestGreeting)
		if err == nil {
			err = readRefusal(f.data).err()
		}
		return nil, err
	}
	if err := readOpening(l.r, token, answering); err != nil {
		return nil, fmt.Errorf("something else answers there: %w", err)
	}
	return l, l.send(greeting)
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
