package order_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// 1F1B on two ranks with PyTorch's messages: rank 0 finds a RECV where it stood
// when rank 1 sent.
func TestWithMessages(t *testing.T) {
	o := ordertest.Order(t, "1f1b", 2, 3)
	all, err := o.WithMessages()
	require.NoError(t, err)
	require.Equal(t, ordertest.Text(`
		0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2
		1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1RECV_F2 1B1 1SEND_B1 1F2 1B2 1SEND_B2`), all.String())
	late, err := o.WithLateReceives()
	require.NoError(t, err)
	require.Equal(t, ordertest.Text(`
		0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2
		1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2`), late.String())
	require.True(t, all.HasMessages())
	require.False(t, o.HasMessages())
	require.Equal(t, o, all.Compute())
	_, err = ordertest.Parse(t, "0F0 0B0 0F1 0B1\n1F1 1F0 1B0 1B1").WithMessages()
	require.ErrorContains(t, err, "waits forever")
	_, err = ordertest.Parse(t, "0F0\n0B0").WithMessages()
	require.ErrorContains(t, err, "rank 1, step 0: stage 0 is on rank 0 and on rank 1; ")
}

// Hand examples: what blocks and where.
func TestHang(t *testing.T) {
	for _, c := range []struct{ name, order, buffered, blocking string }{
		{"one microbatch", `
			0F0 0SEND_F0 0RECV_B0 0B0
			1RECV_F0 1F0 1B0 1SEND_B0`, "", ""},
		{"1F1B, both send", `
			0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
			1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1`, "", `
hangs after 1 of 4 messages
  rank 0 is blocked at step 3, 0SEND_F1: rank 1 has not reached 1RECV_F1, its step 4; it is blocked at 1SEND_B0
  rank 1 is blocked at step 3, 1SEND_B0: rank 0 has not reached 0RECV_B0, its step 4; it is blocked at 0SEND_F1`},
		{"1F1B, the second rank receives first", `
			0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
			1RECV_F0 1F0 1B0 1RECV_F1 1SEND_B0 1F1 1B1 1SEND_B1`, "", ""},
		{"messages overtake each other", `
			0F0 0F1 0SEND_F0 0SEND_F1
			1RECV_F1 1F1 1RECV_F0 1F0`, "", `
hangs after 0 of 2 messages
  rank 0 is blocked at step 2, 0SEND_F0: rank 1 has not reached 1RECV_F0, its step 2; it is blocked at 1RECV_F1
  rank 1 is blocked at step 0, 1RECV_F1: rank 0 has not reached 0SEND_F1, its step 3; it is blocked at 0SEND_F0`},
		{"a circle of three", `
			0F0 0SEND_F0 0RECV_B0 0B0
			1RECV_B0 1RECV_F0 1F0 1SEND_F0 1B0 1SEND_B0
			2RECV_F0 2F0 2B0 2SEND_B0`, `
hangs after 0 of 4 messages
  rank 0 is blocked at step 2, 0RECV_B0: rank 1 has not reached 1SEND_B0, its step 5; it is blocked at 1RECV_B0
  rank 1 is blocked at step 0, 1RECV_B0: rank 2 has not reached 2SEND_B0, its step 3; it is blocked at 2RECV_F0
  rank 2 is blocked at step 0, 2RECV_F0: rank 1 has not reached 1SEND_F0, its step 3; it is blocked at 1RECV_B0`, `
hangs after 0 of 4 messages
  rank 0 is blocked at step 1, 0SEND_F0: rank 1 has not reached 1RECV_F0, its step 1; it is blocked at 1RECV_B0
  rank 1 is blocked at step 0, 1RECV_B0: rank 2 has not reached 2SEND_B0, its step 3; it is blocked at 2RECV_F0
  rank 2 is blocked at step 0, 2RECV_F0: rank 1 has not reached 1SEND_F0, its step 3; it is blocked at 1RECV_B0`},
		{"nobody sends", `
			0F0 0RECV_B0
			1F0`, `
hangs after 0 of 1 messages
  rank 0 is blocked at step 1, 0RECV_B0: no rank has 1SEND_B0`, `
hangs after 0 of 1 messages
  rank 0 is blocked at step 1, 0RECV_B0: no rank has 1SEND_B0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for blocking, want := range map[bool]string{false: c.buffered, true: c.blocking} {
				err := ordertest.Parse(t, c.order).Hang(blocking)
				if want == "" {
					require.NoError(t, err)
					continue
				}
				require.EqualError(t, err, strings.TrimPrefix(want, "\n"))
			}
		})
	}
}

// Received late, 1F1B hangs without buffers as soon as a rank sends forwards
// and its neighbour gradients; GPipe never does.
func TestHangOfSchedules(t *testing.T) {
	for name, hangs := range map[string]bool{"gpipe": false, "model-parallel": false, "1f1b": true, "zb-h1": true, "interleaved-1f1b": true} {
		p := ordertest.Shaped(t, name, graph.Shape{Ranks: 4, Microbatches: 8})
		late, err := p.Order.WithLateReceives()
		require.NoError(t, err)
		require.Equal(t, hangs, late.Hang(true) != nil, name)
	}
}
