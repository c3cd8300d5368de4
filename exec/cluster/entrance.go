package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An entrance is where the other processes of a run connect. It admits those that know its
// token. Strangers are neither many nor there for long: a connection that has not shown the token
// is closed after handshakeTime, or when newer ones need its place.
type entrance struct {
	listeners  []net.Listener
	token      string
	arrivals   chan arrival
	wrong      chan net.Addr // with room for one: a process at that address knows another token, and was told so
	closed     chan struct{}
	handshakes sync.WaitGroup
	// tells says that the user has given the tokens, so a process with another one is told.
	tells bool

	turned atomic.Int64 // connections that were not admitted

	mu        sync.Mutex
	strangers []net.Conn // the oldest first
	most      int        // strangers at the same time
}

// An arrival is a connection that was admitted, and the process on the other side.
type arrival struct {
	*link
	greeting
	purpose string
	refused error // the process is another version, and was told so
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

// handshakeTime bounds how long a connection may take to show the token and to send a greeting,
// and strangersEach how many of them wait at the same time, for each process of the run.
const (
	handshakeTime = 5 * time.Second
	strangersEach = 4
)

// openEntrance listens at addresses of this machine, for the processes of one run.
func openEntrance(size int, hosts ...string) (*entrance, error) {
	d := newEntrance(size, rand.Text())
	for _, host := range hosts {
		if err := d.listen(net.JoinHostPort(host, "0")); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// openAt listens at an address, for processes that know a token that the user has given.
func openAt(address, token string, size int) (*entrance, error) {
	d := newEntrance(size, token)
	d.tells = true
	return d, d.listen(address)
}

func newEntrance(size int, token string) *entrance {
	return &entrance{
		token: token, most: strangersEach * size,
		arrivals: make(chan arrival), wrong: make(chan net.Addr, 1), closed: make(chan struct{}),
	}
}

// listen accepts connections at one more address.
func (d *entrance) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for the other processes: %w", err)
	}
	d.listeners = append(d.listeners, listener)
	d.handshakes.Go(func() { d.accept(listener) })
	return nil
}

// accept answers connections until the entrance is closed.
func (d *entrance) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			d.enroll(conn)
			d.handshakes.Go(func() { d.handshake(conn) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(beatInterval) // there are no more files to open
		}
	}
}

// enroll counts a connection as a stranger's, and closes the oldest one of too many.
func (d *entrance) enroll(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.strangers) >= d.most {
		d.strangers[0].Close()
		d.strangers = slices.Delete(d.strangers, 0, 1)
	}
	d.strangers = append(d.strangers, conn)
}

// strike counts a connection no longer as a stranger's.
func (d *entrance) strike(conn net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strangers = slices.DeleteFunc(d.strangers, func(c net.Conn) bool { return c == conn })
}

// handshake admits a connection that presents the token.
func (d *entrance) handshake(conn net.Conn) {
	a, err := d.answer(conn)
	d.strike(conn)
	if err != nil {
		d.turned.Add(1)
		conn.Close()
		return
	}
	select {
	case d.arrivals <- a:
	case <-d.closed:
		conn.Close()
	}
}

// blame adds to an error how many connections were turned away, if these can have kept processes out.
func (d *entrance) blame(err error) error {
	if n := d.turned.Load(); n > int64(d.most) {
		return fmt.Errorf("%w; %d connections of strangers to %s were turned away meanwhile", err, n, d.addresses()[0])
	}
	return err
}

// answer compares the tokens before it reads anything else, and then reads the greeting.
func (d *entrance) answer(conn net.Conn) (a arrival, err error) {
	defer closeWhen(d.closed, conn)()
	conn.SetDeadline(time.Now().Add(handshakeTime))
	defer conn.SetDeadline(time.Time{})
	other := new(versionError)
	switch err := readOpening(conn, d.token, asking); {
	case errors.Is(err, errToken) && d.tells:
		refusal{Text: otherToken, Usage: true}.frame().writeTo(conn)
		select {
		case d.wrong <- conn.RemoteAddr():
		default:
		}
		return a, err
	case errors.As(err, &other):
		text := (&versionError{mark, other.theirs}).Error() // as the other process sees it
		refusal{Text: text, Usage: true}.frame().writeTo(conn)
		return arrival{link: &link{conn: conn}, refused: other}, nil
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
	for _, listener := range d.listeners {
		listener.Close()
	}
	d.handshakes.Wait()
}

// addresses lists where the entrance listens.
func (d *entrance) addresses() (list []string) {
	for _, listener := range d.listeners {
		list = append(list, listener.Addr().String())
	}
	return list
}

// dial connects to a process, at the first of its addresses that answers as that process.
func dial(ctx context.Context, to Member, purpose string, from int) (l *link, err error) {
	data, err := json.Marshal(greeting{Process: Member{Rank: from}})
	if err != nil {
		return nil, err
	}
	err = knock(ctx, func() error {
		err, dropped := errors.New("it has no address"), error(nil)
		for _, address := range to.Addresses {
			var conn net.Conn
			if conn, err = (&net.Dialer{Timeout: meetingTime / 3}).DialContext(ctx, "tcp", address); err != nil {
				continue
			}
			if l, err = introduce(ctx, conn, to.Token, frame{hello, purpose, data}); err == nil {
				return nil
			}
			conn.Close()
			if errors.Is(err, errDropped) {
				dropped = err
			}
		}
		return cmp.Or(dropped, err)
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", to, err)
	}
	return l, nil
}

// errDropped says that a connection ended before the other side has said anything: it is not psim,
// or strangers take all its places at this moment.
var errDropped = errors.New("psim does not answer there")

// knock calls try until a connection is not dropped, for handshakeTime at most.
func knock(ctx context.Context, try func() error) error {
	for began := time.Now(); ; {
		err := try()
		if !errors.Is(err, errDropped) || time.Since(began) > handshakeTime {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(beatInterval / 4):
		}
	}
}

// introduce shows the token, checks that the other side knows it too, and sends a greeting.
func introduce(ctx context.Context, conn net.Conn, token string, greeting frame) (l *link, err error) {
	defer closeWhen(ctx.Done(), conn)()
	conn.SetDeadline(time.Now().Add(2 * handshakeTime)) // the other side may have many to answer
	defer conn.SetDeadline(time.Time{})
	l = newLink(conn)
	var first []byte
	if _, err = conn.Write(opening(token, asking)); err == nil {
		first, err = l.r.Peek(1)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("nothing answers there within %v: %w", 2*handshakeTime, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errDropped, err)
	case first[0] == refuse:
		f, err := readFrame(l.r, longestGreeting)
		if err == nil {
			err = readRefusal(f.data).err()
		}
		return nil, err
	}
	switch err := readOpening(l.r, token, answering); {
	case errors.As(err, new(*versionError)):
		return nil, &RefusedError{err.Error()}
	case err != nil:
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
