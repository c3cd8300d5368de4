package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"psim/exec/cluster"
)

// environment returns a getenv for variables of a text.
func environment(text string) func(string) string {
	return func(name string) string {
		for _, field := range strings.Fields(text) {
			if value, ok := strings.CutPrefix(field, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// torchrun's variables count if all four are there.
func TestRendezvousOf(t *testing.T) {
	const all = "RANK=1 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"
	p, err := cluster.RendezvousOf(environment(all+" LOCAL_RANK=2 PSIM_TOKEN=secret"), "")
	require.NoError(t, err)
	require.Equal(t, []any{1, 3, "127.0.0.1:29500", 2, "secret"}, []any{p.Rank, p.Size, p.Master, p.LocalRank, p.Token})
	p, err = cluster.RendezvousOf(environment(all+" PSIM_TOKEN=secret"), "of a file")
	require.NoError(t, err)
	require.Equal(t, []any{-1, "of a file"}, []any{p.LocalRank, p.Token})
	for _, name := range []string{"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} {
		p, err = cluster.RendezvousOf(environment(strings.Replace(" "+all, " "+name+"=", " X=", 1)), "")
		require.NoError(t, err)
		require.Nil(t, p, name)
	}
	for _, c := range [][2]string{
		{"RANK=1 ", "RANK=x MASTER: RANK=x: must be a number"},
		{"RANK=1 ", "RANK=3 MASTER: RANK=3: must be 0 to 2, as 3 take part"},
		{"RANK=1 ", "RANK=-1 MASTER: RANK=-1: must be 0 to 2"},
		{"WORLD_SIZE=3", "WORLD_SIZE=0 MASTER: WORLD_SIZE=0: must be the number of processes"},
		{"=29500", "=0 MASTER: MASTER_ADDR and MASTER_PORT: 127.0.0.1:0: must be HOST:PORT"},
		{"=29500", "=x MASTER: MASTER_ADDR and MASTER_PORT: 127.0.0.1:x: must be HOST:PORT"},
		{"=127.0.0.1", "=0.0.0.0 MASTER: MASTER_ADDR and MASTER_PORT: 0.0.0.0:29500: is not the address of one machine"},
		{"=127.0.0.1", "=203.0.113.7 MASTER: so the processes need a token that only they know: give all the same --token-file, or PSIM_TOKEN"},
		{"RANK=1 ", "RANK=1 LOCAL_RANK=x MASTER: LOCAL_RANK=x: must be 0 to 2"},
	} {
		into, want, _ := strings.Cut(c[1], " MASTER: ")
		_, err := cluster.RendezvousOf(environment(strings.Replace(all+" ", c[0], into+" ", 1)), "")
		require.ErrorContains(t, err, want)
	}
	p, err = cluster.RendezvousOf(environment("RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=1 PSIM_TOKEN="+strings.Repeat("x", 2000)), "")
	require.ErrorContains(t, err, "the token has 2000 bytes")
	require.Equal(t, "[::1]:1", p.Master)
}

// Any environment is a place that makes sense, none, or an error.
func FuzzRendezvousOf(f *testing.F) {
	f.Add("1", "3", "127.0.0.1", "29500", "2")
	f.Add("-1", "99999999999999999999", "::1", "0x1", "")
	f.Fuzz(func(t *testing.T, rank, size, host, port, local string) {
		if net.ParseIP(host) == nil {
			host = "127.0.0.1" // no names are looked up
		}
		set := map[string]string{"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": host, "MASTER_PORT": port, "LOCAL_RANK": local}
		p, err := cluster.RendezvousOf(func(name string) string { return set[name] }, "secret")
		if err != nil || p == nil {
			return
		}
		require.True(t, 0 <= p.Rank && p.Rank < p.Size && -1 <= p.LocalRank && p.LocalRank < p.Size)
		_, _, err = net.SplitHostPort(p.Master)
		require.NoError(t, err)
	})
}

// A token is the first line of a file.
func TestReadToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"secret": "secret", "\n  secret \nmore": "secret", strings.Repeat("x", 1024) + "\n": strings.Repeat("x", 1024)} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		token, err := cluster.ReadToken(path)
		require.NoError(t, err)
		require.Equal(t, want, token)
	}
	for text, want := range map[string]string{" \n": "has no token", strings.Repeat("x", 1025): "too long for a token"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := cluster.ReadToken(path)
		require.ErrorContains(t, err, want)
	}
	_, err := cluster.ReadToken(path + "s")
	require.ErrorContains(t, err, "cannot be read: no such file")
	_, err = cluster.ReadToken(filepath.Dir(path))
	require.ErrorContains(t, err, "cannot be read: is a directory")
}

// freeAddress returns an address of this machine where nothing listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// place returns the place of one process, which is a goroutine in this test.
func place(rank, size int, master string) cluster.Rendezvous {
	return cluster.Rendezvous{Rank: rank, Size: size, Master: master, LocalRank: -1, Token: "secret", From: cluster.FlagNames}
}

// meet lets processes, which are goroutines, meet at their places, each after a while.
func meet(t *testing.T, ctx context.Context, places []cluster.Rendezvous, delay func(k int) time.Duration) ([]*cluster.World, []error) {
	list, errs := make([]*cluster.World, len(places)), make([]error, len(places))
	each(len(places), func(k int) {
		time.Sleep(delay(k))
		list[k], errs[k] = cluster.Open(ctx, cluster.Options{Place: &places[k], Ranks: 8, Stall: 3 * time.Second})
	})
	t.Cleanup(func() {
		each(len(list), func(k int) {
			if list[k] != nil {
				list[k].Close()
			}
		})
	})
	return list, errs
}

// Processes that are started one by one, in any order, meet, although strangers knock. They are
// numbered on their machine as they were told.
func TestRendezvous(t *testing.T) {
	master := freeAddress(t)
	places := []cluster.Rendezvous{place(0, 3, master), place(1, 3, master), place(2, 3, master)}
	places[0].LocalRank, places[2].LocalRank = 1, 0
	strangers := make(chan struct{})
	go func() {
		defer close(strangers)
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 100), "psim1", "", "psim1" + strings.Repeat("\x01", 32), "\x01\x00\xff\xff\xff\xff\x0f"} {
			conn, err := net.Dial("tcp", master)
			for ; err != nil; conn, err = net.Dial("tcp", master) {
				time.Sleep(time.Millisecond)
			}
			fmt.Fprint(conn, text)
			defer conn.Close()
		}
	}()
	list, errs := meet(t, context.Background(), places, func(k int) time.Duration {
		if k == 2 { // only then the door is closed
			<-strangers
		}
		return time.Duration(1-k%2) * 200 * time.Millisecond
	})
	require.Equal(t, make([]error, 3), errs)
	for k, w := range list {
		require.Equal(t, []any{k, 3, true}, []any{w.Rank, w.Size, w.Speaks()})
		for k, local := range []int{1, 2, 0} {
			require.Equal(t, local, w.Processes()[k].LocalRank)
		}
	}
	each(3, func(k int) {
		all, err := cluster.AllGatherValues(context.Background(), list[k], "all", k*k)
		if err != nil || fmt.Sprint(all) != "[0 1 4]" {
			t.Error(all, err)
		}
	})
}

// Every process says why a run does not begin.
func TestRendezvousRefuses(t *testing.T) {
	type places = []cluster.Rendezvous
	for name, c := range map[string]struct {
		change func(p places) // of three processes
		wants  []string
		usage  bool
	}{
		"size":       {func(p places) { p[2].Size = 4 }, []string{`process 2 \(pid \d+ on .*\) was told that 4 processes take part, and the first that 3 do`}, true},
		"rank":       {func(p places) { p[2].Rank = 1 }, []string{`process 1 \(pid \d+ on .*\): its rank is taken; give each of the 3 processes a rank of its own`}, true},
		"local rank": {func(p places) { p[1].LocalRank, p[2].LocalRank = 0, 0 }, []string{`processes 1 and 2 on .* both have LOCAL_RANK 0`}, true},
		"token":      {func(p places) { p[2].Token = "guess" }, []string{`process 2 of 3 did not come to 127.0.0.1:\d+ within 3s; a process at 127.0.0.1:\d+ came with another token: give all the same`, "", `the token of this process differs from the first one's: give all the same`}, true},
		"no token":   {func(p places) { p[0].Token = "" }, []string{`came with another token`, `token`, `token|was lost|reached`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := freeAddress(t)
			p := places{place(0, 3, master), place(1, 3, master), place(2, 3, master)}
			c.change(p)
			_, errs := meet(t, context.Background(), p, func(k int) time.Duration { return time.Duration(k) * 100 * time.Millisecond })
			for k, err := range errs {
				want := c.wants[0]
				if k < len(c.wants) && c.wants[k] != "" {
					want = c.wants[k]
				}
				require.Error(t, err)
				require.Regexp(t, want, err.Error())
				if k == 0 {
					require.Equal(t, c.usage, errors.As(err, new(*cluster.RefusedError)))
				}
			}
		})
	}
}

// Processes of another version are refused by name, and all say so.
func TestRendezvousVersions(t *testing.T) {
	t.Parallel()
	master := freeAddress(t)
	errs := make([]error, 3)
	each(3, func(k int) {
		p := place(k, 3, master)
		time.Sleep(time.Duration(k) * 100 * time.Millisecond)
		_, errs[k] = cluster.Open(context.Background(), cluster.Options{Place: &p, Ranks: 8, Stall: 5 * time.Second, Version: fmt.Sprint("0.", k/2+1)})
	})
	for _, err := range errs {
		require.ErrorAs(t, err, new(*cluster.RefusedError))
		require.Regexp(t, `process 2 \(pid \d+ on .*\) is psim 0.2, and the first process psim 0.1: start the same version everywhere`, err.Error())
	}
}

// A process that nobody meets says for whom it has waited, and where.
func TestRendezvousLate(t *testing.T) {
	t.Parallel()
	master := freeAddress(t)
	open := func(p cluster.Rendezvous) error {
		var said []string
		_, err := cluster.Open(context.Background(), cluster.Options{Place: &p, Ranks: 8, Stall: time.Second, Waiting: func(what string) { said = append(said, what) }})
		require.Len(t, said, 1)
		require.Contains(t, said[0], master)
		require.Contains(t, said[0], "for 1s at most")
		return err
	}
	require.EqualError(t, open(place(0, 3, master)), "processes 1, 2 of 3 did not come to "+master+" within 1s")
	require.ErrorContains(t, open(place(2, 3, master)), "the first process could not be reached within 1s: dial tcp "+master)

	taken, err := net.Listen("tcp", master)
	require.NoError(t, err)
	defer taken.Close()
	first := place(0, 2, master)
	_, err = cluster.Open(context.Background(), cluster.Options{Place: &first, Ranks: 2})
	require.EqualError(t, err, "--master "+master+": something else listens there, such as another process of rank 0; choose another port")
	go func() {
		conn, err := taken.Accept()
		if err == nil {
			fmt.Fprint(conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n")
			conn.Close()
		}
	}()
	second := place(1, 2, master)
	_, err = cluster.Open(context.Background(), cluster.Options{Place: &second, Ranks: 2, Stall: 5 * time.Second})
	require.ErrorContains(t, err, "something else answers there: it is not psim")

	elsewhere := place(0, 2, "203.0.113.7:29500")
	_, err = cluster.Open(context.Background(), cluster.Options{Place: &elsewhere, Ranks: 2})
	require.EqualError(t, err, "--master 203.0.113.7:29500: is not an address of this machine; name the machine where rank 0 runs")
	many := place(0, 5, master)
	_, err = cluster.Open(context.Background(), cluster.Options{Place: &many, Ranks: 2})
	require.EqualError(t, err, "--world-size 5: more processes than devices (2); every process needs one at least")
	alone := place(0, 1, master)
	w, err := cluster.Open(context.Background(), cluster.Options{Place: &alone, Ranks: 2})
	require.NoError(t, err)
	require.Nil(t, w)
}

// A process that is interrupted while it waits ends the start of the others as well.
func TestRendezvousInterrupted(t *testing.T) {
	t.Parallel()
	master := freeAddress(t)
	p := []cluster.Rendezvous{place(0, 3, master), place(1, 3, master)}
	ctx, interrupt := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, interrupt)
	errs := make([]error, 2)
	each(2, func(k int) {
		of := context.Background()
		if k == 1 {
			of = ctx
		}
		_, errs[k] = cluster.Open(of, cluster.Options{Place: &p[k], Ranks: 8, Stall: 5 * time.Second})
	})
	require.ErrorIs(t, errs[0], context.Canceled)
	require.ErrorIs(t, errs[1], context.Canceled)
}
