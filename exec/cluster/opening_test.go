package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
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
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), false)
	f.Add([]byte{hello, 0, 0xff, 0xff, 0xff, 0xff, 0x1f}, true)
	f.Fuzz(func(t *testing.T, said []byte, knows bool) {
		if len(said) > 1<<17 {
			return
		}
		here, there := net.Pipe()
		d := &entrance{token: "secret", closed: make(chan struct{})}
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
			require.True(t, knows || bytes.HasPrefix(said, opening("secret", asking)))
			require.NotNil(t, a.link)
			require.NoError(t, a.refused)
		}
	})
}

// A connection that says nothing is closed soon, and does not keep others out.
func TestSilentStrangers(t *testing.T) {
	d, err := openAt("127.0.0.1:0", "secret", true)
	require.NoError(t, err)
	defer d.close()
	for range mostHandshakes - 1 {
		conn, err := net.Dial("tcp", d.listener.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
	}
	to := Member{Addresses: []string{d.listener.Addr().String()}, Token: "secret"}
	dialed := make(chan error, 1)
	go func() {
		l, err := dial(context.Background(), to, toControl, Member{Rank: 3})
		if err == nil {
			defer l.conn.Close()
		}
		dialed <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 2*handshakeTime)
	defer cancel()
	began := time.Now()
	a, err := d.next(ctx)
	require.NoError(t, err, time.Since(began))
	require.Equal(t, []any{toControl, 3}, []any{a.purpose, a.Process.Rank})
	a.conn.Close()
	require.NoError(t, <-dialed)
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
