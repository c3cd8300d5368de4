package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"psim/exec/cluster"
)

func TestMain(m *testing.M) {
	if do := os.Getenv(memberVariable); do != "" {
		os.Exit(member(do))
	}
	goleak.VerifyTestMain(m)
}

// worlds joins n processes, which are goroutines in this test.
func worlds(t testing.TB, n int, o cluster.Options) []*cluster.World {
	i, err := cluster.Invite(n)
	require.NoError(t, err)
	list := make([]*cluster.World, n)
	each(n, func(k int) {
		w, err := i.Join(context.Background(), k, o)
		if err != nil {
			t.Error(err)
			return
		}
		list[k] = w
	})
	require.NotContains(t, list, (*cluster.World)(nil))
	t.Cleanup(func() { each(n, func(k int) { list[k].Close() }) })
	return list
}

// each calls what n times at the same time, and waits for all calls.
func each(n int, what func(k int)) {
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() { what(k) })
	}
	all.Wait()
}

// Every message arrives at its receiver, whatever the order of sending and receiving.
func TestMessages(t *testing.T) {
	const n, many = 4, 40
	list := worlds(t, n, cluster.Options{})
	ctx := context.Background()
	content := func(from, to, i int) []byte { return make([]byte, i*i*97+from*10+to) }
	each(n, func(k int) {
		random := rand.New(rand.NewSource(int64(k)))
		var all sync.WaitGroup
		all.Go(func() {
			for to := range n {
				for _, i := range random.Perm(many) {
					data := content(k, to, i)
					if err := list[k].Send(to, fmt.Sprint("message ", i), data); err != nil {
						t.Error(err)
					}
					clear(data)
				}
			}
		})
		for from := range n {
			for i := range many {
				data, err := list[k].Receive(ctx, from, fmt.Sprint("message ", i))
				if err != nil || len(data) != len(content(from, k, i)) {
					t.Errorf("process %d from %d: %d bytes, %v", k, from, len(data), err)
				}
			}
		}
		all.Wait()
	})
}

// Receive waits for a message until its context ends.
func TestReceiveWaits(t *testing.T) {
	list := worlds(t, 2, cluster.Options{})
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	time.AfterFunc(20*time.Millisecond, func() { cancel(enough) })
	_, err := list[0].Receive(ctx, 1, "x")
	require.Equal(t, enough, err)
	require.NoError(t, list[1].Send(0, "x", []byte("late")))
	data, err := list[0].Receive(context.Background(), 1, "x")
	require.NoError(t, err)
	require.Equal(t, "late", string(data))
}

func TestCollectives(t *testing.T) {
	const n = 3
	list := worlds(t, n, cluster.Options{})
	ctx := context.Background()
	each(n, func(k int) {
		for round := range 20 {
			all, err := list[k].Gather(ctx, fmt.Sprint("gather ", round), []byte{byte(k), byte(round)})
			if err != nil {
				t.Error(err)
			}
			if k == 0 && fmt.Sprint(all) != fmt.Sprintf("[[0 %d] [1 %d] [2 %d]]", round, round, round) ||
				k > 0 && all != nil {
				t.Error(k, all)
			}
			told, err := list[k].Broadcast(ctx, fmt.Sprint("tell ", round), []byte{byte(k + round)})
			if err != nil || len(told) != 1 || told[0] != byte(round) {
				t.Error(told, err)
			}
			if err := list[k].Barrier(ctx, fmt.Sprint("barrier ", round)); err != nil {
				t.Error(err)
			}
		}
	})
}

// A key must not be sent again before it was received.
func TestTwice(t *testing.T) {
	list := worlds(t, 2, cluster.Options{})
	require.NoError(t, list[1].Send(0, "x", nil))
	require.NoError(t, list[1].Send(0, "x", nil))
	ctx, cancel := list[0].Context(context.Background())
	defer cancel()
	<-ctx.Done()
	require.ErrorContains(t, context.Cause(ctx), `process 1 has sent "x" twice`)
}

// All processes end with the cause with which one process ends the run, whichever process tells
// them, and calls that wait return.
func TestAbort(t *testing.T) {
	const n = 3
	list := worlds(t, n, cluster.Options{})
	for _, w := range list {
		require.Equal(t, []int{0, 2, 3, 4}, w.Divide(4))
	}
	go list[1].Abort(errors.New("1F3 on rank 2: no memory"))
	each(n, func(k int) {
		ctx, cancel := list[k].Context(context.Background())
		defer cancel()
		_, err := list[k].Receive(ctx, (k+1)%n, "never")
		var aborted *cluster.AbortError
		switch {
		case k == 1:
			require.EqualError(t, err, "1F3 on rank 2: no memory")
		case !errors.As(err, &aborted):
			t.Error(err)
		default:
			require.Equal(t, 1, aborted.Process.Rank)
			require.Contains(t, err.Error(), fmt.Sprintf("process 1 (pid %d on ", os.Getpid()))
			require.Contains(t, err.Error(), ", rank 2) ended the run: 1F3 on rank 2: no memory")
		}
		require.Error(t, list[k].Send(0, "more", nil))
	})
	require.True(t, list[0].Speaks())
	require.False(t, list[1].Speaks())
}

// If an error is about flags for one process, it is about flags for all.
func TestAbortUsage(t *testing.T) {
	wrong := errors.New("--gpus 3: too many")
	list := worlds(t, 2, cluster.Options{Usage: func(err error) bool { return err == wrong }})
	list[1].Abort(wrong)
	_, err := list[0].Receive(context.Background(), 1, "never")
	var aborted *cluster.AbortError
	require.ErrorAs(t, err, &aborted)
	require.True(t, aborted.Usage)
	require.Equal(t, "--gpus 3: too many", aborted.Text)
}

// A process that works alone is not still, and all learn that nothing happens.
func TestStuck(t *testing.T) {
	list := worlds(t, 2, cluster.Options{})
	rest := list[1].Busy()
	require.Never(t, func() bool { return list[0].Still(700 * time.Millisecond) }, time.Second, 50*time.Millisecond)
	rest()
	list[1].TellStuck()
	list[1].TellStuck()
	<-list[0].Stuck()
	<-list[1].Stuck()
}

// An interrupt waits a moment for what may have caused it.
func TestInterrupt(t *testing.T) {
	list := worlds(t, 2, cluster.Options{})
	ctx, interrupt := context.WithCancel(context.Background())
	both, cancel := list[0].Context(ctx)
	defer cancel()
	interrupt()
	list[1].Abort(errors.New("broken"))
	<-both.Done()
	require.ErrorContains(t, context.Cause(both), "broken")

	list = worlds(t, 2, cluster.Options{})
	alone, cancel := list[0].Context(ctx)
	defer cancel()
	<-alone.Done()
	require.ErrorIs(t, context.Cause(alone), context.Canceled)
	require.NoError(t, list[0].Cause())
}

// One process may leave before the others, which continue.
func TestLeave(t *testing.T) {
	list := worlds(t, 3, cluster.Options{Stall: time.Second})
	require.NoError(t, list[1].Send(0, "last", []byte("word")))
	list[1].Close()
	time.Sleep(1500 * time.Millisecond)
	data, err := list[0].Receive(context.Background(), 1, "last")
	require.NoError(t, err)
	require.Equal(t, "word", string(data))
	require.NoError(t, list[2].Send(0, "x", nil))
	_, err = list[0].Receive(context.Background(), 2, "x")
	require.NoError(t, err)
	require.NoError(t, list[0].Cause())
	require.NoError(t, list[2].Cause())
}

// Nothing is still while any process makes progress.
func TestStill(t *testing.T) {
	list := worlds(t, 2, cluster.Options{})
	until := time.Now().Add(1200 * time.Millisecond)
	for time.Now().Before(until) {
		list[1].Progress()
		require.False(t, list[0].Still(500*time.Millisecond))
		time.Sleep(10 * time.Millisecond)
	}
	require.Eventually(t, func() bool {
		return list[0].Still(500*time.Millisecond) && list[1].Still(500*time.Millisecond)
	}, 5*time.Second, 10*time.Millisecond)
}

// The processes of a test share a clock, but each has a zero of its own.
func TestClock(t *testing.T) {
	const n = 3
	list := worlds(t, n, cluster.Options{})
	clocks := make([][2]cluster.Clock, n)
	for round := range 2 {
		each(n, func(k int) {
			c, err := list[k].Clock(context.Background(), fmt.Sprint("clock ", round))
			if err != nil {
				t.Error(err)
			}
			clocks[k][round] = c
		})
	}
	now := time.Now()
	for k, c := range clocks {
		at := cluster.Aligned(c[0], c[1], list[k].Since(now))
		require.InDelta(t, list[0].Since(now), at, float64(max(c[0].Residual, c[1].Residual))+1000, "process %d", k)
	}
}

// An offset between two measurements lies between their offsets.
func ExampleAligned() {
	before := cluster.Clock{At: 0, Offset: 5 * time.Microsecond}
	after := cluster.Clock{At: 10 * time.Second, Offset: 15 * time.Microsecond}
	fmt.Println(cluster.Aligned(before, after, 5*time.Second))
	// Output: 5.00001s
}

// Two processes, which are goroutines here, say hello.
func ExampleInvitation_Join() {
	ctx := context.Background()
	invitation, err := cluster.Invite(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan bool)
	go func() {
		second, err := invitation.Join(ctx, 1, cluster.Options{})
		if err == nil {
			second.Send(0, "greeting", []byte("hello"))
			second.Close()
		}
		close(done)
	}()
	first, err := invitation.Join(ctx, 0, cluster.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Close()
	text, err := first.Receive(ctx, 1, "greeting")
	fmt.Println(string(text), err)
	<-done
	// Output: hello <nil>
}
