package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An opening is known by its token and its side, and by nothing less.
func TestOpenings(t *testing.T) {
	whole := opening("secret", asking)
	require.Len(t, whole, openingSize)
	require.NotContains(t, string(whole), "secret")
	require.NoError(t, readOpening(bytes.NewReader(whole), "secret", asking))
	require.ErrorIs(t, readOpening(bytes.NewReader(whole), "secret", answering), errToken)
	require.ErrorIs(t, readOpening(bytes.NewReader(whole), "secrets", asking), errToken)
	require.ErrorIs(t, readOpening(bytes.NewReader(whole[1:]), "secret", asking), io.ErrUnexpectedEOF)
	for i := range whole {
		other := bytes.Clone(whole)
		other[i] ^= 1
		require.Error(t, readOpening(bytes.NewReader(other), "secret", asking))
	}
}

// Whatever a stranger sends, the door stays shut. Whatever a process says that knows the token, it
// is admitted with a greeting or turned away.
func FuzzDoor(f *testing.F) {
	greet, _ := json.Marshal(greeting{Process: Member{Rank: 1}, Size: 2})
	var b bytes.Buffer
	frame{hello, toJoin, greet}.writeTo(&b)
	f.Add(b.Bytes(), true)
	f.Add(opening("secret", answering), false)
	f.Add(append([]byte("psim2"), opening("secret", asking)[len(mark):]...), false)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), false)
	f.Add([]byte{hello, 0, 0xff, 0xff, 0xff, 0xff, 0x1f}, true)
	f.Fuzz(func(t *testing.T, said []byte, knows bool) {
		if len(said) > 1<<17 {
			return
		}
		here, there := net.Pipe()
		d := newEntrance(2, "secret")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if knows {
				there.Write(opening("secret", asking))
				io.ReadFull(there, make([]byte, openingSize))
			}
			there.Write(said)
			there.Close()
		}()
		a, err := d.answer(here)
		here.Close()
		<-done
		if err == nil {
			require.True(t, knows || bytes.Contains(said, opening("secret", asking)[len(mark):]))
			require.NotNil(t, a.link)
			require.Equal(t, a.refused == nil, a.r != nil)
		}
	})
}

// door opens an entrance for two processes, and returns it with its address.
func door(t *testing.T) (*entrance, string) {
	d, err := openAt("127.0.0.1:0", "secret", 2)
	require.NoError(t, err)
	t.Cleanup(d.close)
	return d, d.addresses()[0]
}

// knockAt connects to an address and says something.
func knockAt(t *testing.T, address string, said []byte) net.Conn {
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.Write(said)
	return conn
}

// admitted checks that a process that knows the token is let in.
func admitted(t *testing.T, d *entrance) {
	t.Helper()
	dialed := make(chan error, 1)
	go func() {
		l, err := dial(context.Background(), Member{Addresses: d.addresses(), Token: "secret"}, toControl, 3)
		if err == nil {
			defer l.conn.Close()
		}
		dialed <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	a, err := d.next(ctx)
	require.NoError(t, err)
	require.Equal(t, []any{toControl, 3}, []any{a.purpose, a.Process.Rank})
	a.conn.Close()
	require.NoError(t, <-dialed)
}

// A thousand silent connections keep nobody out, and all but a few are closed.
func TestManyStrangers(t *testing.T) {
	t.Parallel()
	d, address := door(t)
	list := make([]net.Conn, 1000)
	for k := range list {
		list[k] = knockAt(t, address, nil)
	}
	admitted(t, d)
	open := 0
	for _, conn := range list {
		conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
			open++
		}
	}
	require.LessOrEqual(t, open, 2*strangersEach)
	require.Eventually(t, func() bool { return d.turned.Load() > 900 }, time.Minute, time.Millisecond)
	require.ErrorIs(t, d.blame(errLate), errLate)
	require.Regexp(t, `; \d+ connections of strangers to \S+ were turned away meanwhile$`, d.blame(errLate).Error())
}

// Whoever has not shown the token in time is shut out, however it spends the time: saying nothing, a
// part of an opening, a byte a second, or a part of a greeting.
func TestSlowStrangers(t *testing.T) {
	t.Parallel()
	d, address := door(t)
	whole := opening("secret", asking)
	slow := knockAt(t, address, nil)
	var said atomic.Int64
	list := []net.Conn{
		slow, knockAt(t, address, nil), knockAt(t, address, whole[:openingSize-1]),
		knockAt(t, address, append(whole, frame{kind: hello, data: make([]byte, 9)}.head()...)),
	}
	admitted(t, d)
	var writing sync.WaitGroup
	writing.Go(func() {
		for _, b := range whole {
			if _, err := slow.Write([]byte{b}); err != nil {
				return
			}
			said.Add(1)
			time.Sleep(time.Second)
		}
	})
	for _, conn := range list {
		io.Copy(io.Discard, conn) // until the door closes it
	}
	writing.Wait()
	require.Less(t, int(said.Load()), openingSize)
	admitted(t, d)
}

// What a stranger says is never an arrival, and neither is a process with another token, which is
// told. A first frame of more than 4 KiB is not read.
func TestWrongStrangers(t *testing.T) {
	t.Parallel()
	d, address := door(t)
	said := func(conn net.Conn) string {
		conn.(*net.TCPConn).CloseWrite()
		data, err := io.ReadAll(conn)
		if err != nil { // there was more to read than the door has read
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
		return string(data)
	}
	require.Empty(t, said(knockAt(t, address, []byte("GET / HTTP/1.1\r\nHost: a long enough name\r\n\r\n"))))
	require.Empty(t, said(knockAt(t, address, bytes.Repeat([]byte{0xff}, 1<<16))))
	require.Empty(t, said(knockAt(t, address, opening("secret", asking)[:20])))
	require.Contains(t, said(knockAt(t, address, opening("guess", asking))), otherToken)
	<-d.wrong
	large := frame{hello, toJoin, make([]byte, longestGreeting)}
	head := large.head()
	answered := said(knockAt(t, address, append(append(opening("secret", asking), head...), large.data...)))
	require.LessOrEqual(t, len(answered), openingSize)
	_, err := readFrame(bufio.NewReader(bytes.NewReader(head)), longestGreeting)
	require.EqualError(t, err, "a frame of 4096 bytes: at most 4092 are sent")
	admitted(t, d)
}

// A process of another version that knows the token is refused, and both sides say so. One that
// answers as another version is refused as well.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	d, address := door(t)
	other := append([]byte("psim9"), opening("secret", asking)[len(mark):]...)
	conn := knockAt(t, address, other)
	f, err := readFrame(bufio.NewReader(conn), longestGreeting)
	require.NoError(t, err)
	require.Equal(t, refuse, f.kind)
	require.EqualError(t, readRefusal(f.data).err(), `another version of psim: its connections begin with "psim1", `+
		`and those of this psim with "psim9": start the same version everywhere`)
	a, err := d.next(context.Background())
	require.NoError(t, err)
	require.ErrorContains(t, a.refused, `begin with "psim9", and those of this psim with "psim1"`)
	a.conn.Close()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err == nil {
			conn.Write(append([]byte("psim9"), opening("secret", answering)[len(mark):]...))
		}
	}()
	_, err = dial(context.Background(), Member{Addresses: []string{l.Addr().String()}, Token: "secret"}, toControl, 1)
	require.ErrorAs(t, err, new(*RefusedError))
	require.ErrorContains(t, err, `another version of psim: its connections begin with "psim9"`)
}

// A process listens where the others of its run are, and nowhere else.
func TestHostsFor(t *testing.T) {
	at := func(loopback string, addresses ...string) site { return site{Loopback: loopback, Addresses: addresses} }
	routes := map[string]string{ // of the machine a
		"10.0.0.2": "10.0.0.1", "192.168.7.2": "192.168.7.1", "fd00::2": "fd00::1", "172.17.0.1": "172.17.0.1",
	}
	source := func(to string) string { return routes[to] }
	a := at("a", "10.0.0.1", "192.168.7.1", "172.17.0.1", "fd00::1")
	for name, c := range map[string]struct {
		others []site
		want   []string
	}{
		"one machine":  {[]site{a, a}, []string{loopback}},
		"two":          {[]site{at("b", "10.0.0.2", "172.17.0.1")}, []string{"10.0.0.1"}},
		"two and near": {[]site{a, at("b", "10.0.0.2", "fd00::2")}, []string{loopback, "10.0.0.1", "fd00::1"}},
		"two networks": {[]site{at("b", "10.0.0.2"), at("c", "192.168.7.2")}, []string{"10.0.0.1", "192.168.7.1"}},
		"no route":     {[]site{at("b", "203.0.113.9")}, []string{"10.0.0.1", "172.17.0.1", "192.168.7.1", "fd00::1"}},
	} {
		require.Equal(t, c.want, hostsFor(0, append([]site{a}, c.others...), source), name)
	}
	here := siteOf(0, "1")
	require.Equal(t, []string{loopback}, hostsFor(0, []site{here, siteOf(1, "1")}, sourceTo))
	require.NoError(t, checkVersions([]site{here, here}))
	require.ErrorContains(t, checkVersions([]site{here, siteOf(1, "2")}), " is psim 2, and the first process psim 1: start the same version everywhere")
	for _, own := range here.Addresses {
		require.Equal(t, own, sourceTo(own))
	}
}

// What is told of an error arrives as that kind of error.
func TestRefusals(t *testing.T) {
	for _, err := range []error{&RefusedError{"--world-size"}, context.Canceled, io.EOF} {
		back := readRefusal(refusalOf(err).frame().data).err()
		require.Equal(t, err.Error(), back.Error())
		require.IsType(t, refusalOf(err).err(), back)
	}
	require.ErrorContains(t, readRefusal([]byte("?")).err(), "unknown reason")
}
