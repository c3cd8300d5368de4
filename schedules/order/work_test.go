package order_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// drawOrder draws a schedule's order.
func drawOrder(t *rapid.T) (order.Order, graph.Placement) {
	s := rapid.SampledFrom(schedules.Catalog()).Draw(t, "schedule")
	shape := s.Sized(graph.Shape{Ranks: rapid.IntRange(1, 7).Draw(t, "ranks"), Microbatches: rapid.IntRange(1, 12).Draw(t, "microbatches"), Virtual: rapid.IntRange(1, 4).Draw(t, "virtual")})
	if s.Check(shape) != nil {
		t.Skip("a shape that the schedule refuses")
	}
	o, err := s.Order(shape, nil)
	require.NoError(t, err)
	return o, s.Placement(shape)
}

// A rank that waits is not asked again before what it waits for is there: there
// are as many questions as actions and waits.
func TestClocksWork(t *testing.T) {
	const ranks = 500
	o := ordertest.Order(t, "gpipe", ranks, 2)
	asked := 0
	_, err := o.ClocksAfter(func(order.Action) order.Action {
		asked++
		return order.Action{Stage: graph.None}
	})
	require.NoError(t, err)
	require.LessOrEqual(t, asked, 2*o.Actions())
}

// Ranks take one action each in turn, said in the dullest way.
func TestMessagesInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, p := drawOrder(t)
		want, next := make(order.Order, len(o)), make([]int, len(o))
		for moved := true; moved; {
			moved = false
			for r, actions := range o {
				if next[r] == len(actions) {
					continue
				}
				a := actions[next[r]]
				a.Pair = false
				if _, need := a.Needs(p.Stages()); need.Stage != graph.None && !made(o, next, need) {
					continue
				}
				next[r], moved = next[r]+1, true
				want[r] = append(want[r], a)
				if send, leaves := a.Send(p); leaves {
					receive := order.Action{Kind: graph.ReceiveForward, Stage: a.Feeds(p.Stages()), Microbatch: a.Microbatch}
					if send.Kind == graph.SendBackward {
						receive.Kind = graph.ReceiveBackward
					}
					to := p.Rank(receive.Stage, receive.Microbatch)
					want[r], want[to] = append(want[r], send), append(want[to], receive)
				}
			}
		}
		got, err := o.WithMessages()
		require.NoError(t, err)
		require.Equal(t, want.String(), got.String())
	})
}

// made reports whether a result is among the first actions of the ranks; that of
// an input gradient is named as a backward's.
func made(o order.Order, next []int, result order.Action) bool {
	for r, n := range next {
		for _, a := range o[r][:n] {
			if a.Kind == graph.InputGradient {
				a.Kind = graph.Backward
			}
			if a.Pair = false; a == result {
				return true
			}
		}
	}
	return false
}

// Whatever the order of messages, ranks that are swept over and over come to where
// Hang says.
func TestHangSwept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, _ := drawOrder(t)
		o, err := o.WithLateReceives()
		require.NoError(t, err)
		for range rapid.IntRange(0, 3).Draw(t, "swaps") {
			actions := o[rapid.IntRange(0, len(o)-1).Draw(t, "rank")]
			i := rapid.IntRange(0, len(actions)-1).Draw(t, "i")
			j := rapid.IntRange(0, len(actions)-1).Draw(t, "j")
			actions[i], actions[j] = actions[j], actions[i]
		}
		blocking := rapid.Bool().Draw(t, "blocking")
		at := swept(o, blocking)
		var hang *order.HangError
		if err := o.Hang(blocking); err != nil {
			require.ErrorAs(t, err, &hang)
			require.Equal(t, hang.At, at)
			return
		}
		for r, actions := range o {
			require.Equal(t, len(actions), at[r])
		}
	})
}

// swept is where every rank comes to a halt.
func swept(o order.Order, blocking bool) []int {
	at := make([]int, len(o))
	stands := func(a order.Action) int {
		for r, i := range at {
			if i < len(o[r]) && o[r][i] == a {
				return r
			}
		}
		return -1
	}
	sent := map[order.Action]bool{}
	for moved := true; moved; {
		moved = false
		for r := range o {
			if at[r] == len(o[r]) {
				continue
			}
			a := o[r][at[r]]
			end := otherEnd(a)
			switch {
			case a.Kind.Compute():
			case blocking && stands(end) < 0, !blocking && a.Kind == graph.ReceiveForward && !sent[end], !blocking && a.Kind == graph.ReceiveBackward && !sent[end]:
				continue
			case blocking:
				at[stands(end)]++
			default:
				sent[a] = true
			}
			at[r]++
			moved = true
		}
	}
	return at
}

// otherEnd names a message as the rank at its other end does.
func otherEnd(a order.Action) order.Action {
	switch a.Kind {
	case graph.SendForward:
		a.Kind, a.Stage = graph.ReceiveForward, a.Stage+1
	case graph.ReceiveForward:
		a.Kind, a.Stage = graph.SendForward, a.Stage-1
	case graph.SendBackward:
		a.Kind, a.Stage = graph.ReceiveBackward, a.Stage-1
	case graph.ReceiveBackward:
		a.Kind, a.Stage = graph.SendBackward, a.Stage+1
	}
	return a
}

// A file is not read beyond what a schedule may have.
func TestCSVSize(t *testing.T) {
	endless := &counted{}
	_, err := order.ReadCSV(endless)
	require.EqualError(t, err, "is larger than 32 MiB, the limit for a schedule file")
	require.Less(t, endless.n, order.MaxFile+1<<20)
}

// counted is a file without an end.
type counted struct{ n int }

func (c *counted) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ','
	}
	c.n += len(b)
	return len(b), nil
}

// BenchmarkWide reads, checks and completes an order of 20,000 ranks.
func BenchmarkWide(b *testing.B) {
	var text strings.Builder
	for r := range 20_000 {
		fmt.Fprintf(&text, "%[1]dF0,%[1]dB0\n", r)
	}
	for b.Loop() {
		o, err := order.ReadCSV(strings.NewReader(text.String()))
		require.NoError(b, err)
		_, _, err = schedules.Custom("wide", o)
		require.NoError(b, err)
		o, err = o.WithMessages()
		require.NoError(b, err)
		require.NoError(b, o.Hang(true))
		require.NoError(b, o.WriteCSV(io.Discard))
	}
}
