package schedules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// A file from before November 2024 has BW for the full backward and B for the
// input gradient; one without any BW is read as it stands.
func TestLegacyCSV(t *testing.T) {
	o, err := order.ReadCSV(strings.NewReader("0F0,0F1, 0B0,0BW1,0W0\r\n1F0,1F1,1BW0,1BW1\r\n"))
	require.NoError(t, err)
	require.Equal(t, parse(t, "0F0 0F1 0I0 0B1 0W0\n1F0 1F1 1B0 1B1"), o)
	o, err = order.ReadCSV(strings.NewReader("0F0,0B0"))
	require.NoError(t, err)
	require.Equal(t, parse(t, "0F0 0B0"), o)
}

// 1F1B on two ranks with PyTorch's messages: rank 0 finds a RECV where it stood
// when rank 1 sent.
func TestWithMessages(t *testing.T) {
	o := orderOf(t, "1f1b", 2, 3)
	all, err := o.WithMessages()
	require.NoError(t, err)
	require.Equal(t, text(`
		0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2
		1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1RECV_F2 1B1 1SEND_B1 1F2 1B2 1SEND_B2`), all.String())
	late, err := o.WithLateReceives()
	require.NoError(t, err)
	require.Equal(t, text(`
		0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2
		1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1RECV_F2 1F2 1B2 1SEND_B2`), late.String())
	require.True(t, all.HasMessages())
	require.False(t, o.HasMessages())
	require.Equal(t, o, all.Compute())
	_, err = parse(t, "0F0 0B0 0F1 0B1\n1F1 1F0 1B0 1B1").WithMessages()
	require.ErrorContains(t, err, "waits for ever")
	_, err = parse(t, "0F0\n0B0").WithMessages()
	require.ErrorContains(t, err, "rank 1, step 0: stage 0 is on rank 0 and on rank 1; ")
}

// Whatever the schedule: with messages it can be written, read, checked and
// stripped of them again; every message stands between different ranks, has one
// other end, and PyTorch's places never make anybody wait in a circle.
func TestMessagesOfSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPipeline(t)
		for _, add := range []func() (order.Order, error){p.Order.WithMessages, p.Order.WithLateReceives} {
			all, err := add()
			if err != nil { // a placement that leaves a rank without stages
				require.ErrorContains(t, err, "stage")
				return
			}
			back, err := order.ReadCSV(strings.NewReader(write(t, all)))
			require.NoError(t, err)
			require.Equal(t, all.String(), back.String())
			require.Equal(t, p.Order.String(), back.Compute().String())
			require.NoError(t, all.Hang(false), "with buffers any legal order runs")
			s, shape, err := schedules.Custom("mine", all)
			if err == nil {
				runs(t, s, shape)
			} else {
				require.ErrorContains(t, err, "has nothing to do")
			}
			count := 0
			for _, actions := range all {
				for _, a := range actions {
					switch a.Kind {
					case graph.SendForward, graph.SendBackward:
						count++
					case graph.ReceiveForward, graph.ReceiveBackward:
						count--
					}
				}
			}
			require.Zero(t, count)
		}
		all, err := p.Order.WithMessages()
		require.NoError(t, err)
		require.NoError(t, all.Hang(true), "PyTorch's places need no buffers")
	})
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
  rank 0 stands at step 3, 0SEND_F1: rank 1 has not come to 1RECV_F1, its step 4; it stands at 1SEND_B0
  rank 1 stands at step 3, 1SEND_B0: rank 0 has not come to 0RECV_B0, its step 4; it stands at 0SEND_F1`},
		{"1F1B, the second rank receives first", `
			0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
			1RECV_F0 1F0 1B0 1RECV_F1 1SEND_B0 1F1 1B1 1SEND_B1`, "", ""},
		{"messages overtake each other", `
			0F0 0F1 0SEND_F0 0SEND_F1
			1RECV_F1 1F1 1RECV_F0 1F0`, "", `
hangs after 0 of 2 messages
  rank 0 stands at step 2, 0SEND_F0: rank 1 has not come to 1RECV_F0, its step 2; it stands at 1RECV_F1
  rank 1 stands at step 0, 1RECV_F1: rank 0 has not come to 0SEND_F1, its step 3; it stands at 0SEND_F0`},
		{"a circle of three", `
			0F0 0SEND_F0 0RECV_B0 0B0
			1RECV_B0 1RECV_F0 1F0 1SEND_F0 1B0 1SEND_B0
			2RECV_F0 2F0 2B0 2SEND_B0`, `
hangs after 0 of 4 messages
  rank 0 stands at step 2, 0RECV_B0: rank 1 has not come to 1SEND_B0, its step 5; it stands at 1RECV_B0
  rank 1 stands at step 0, 1RECV_B0: rank 2 has not come to 2SEND_B0, its step 3; it stands at 2RECV_F0
  rank 2 stands at step 0, 2RECV_F0: rank 1 has not come to 1SEND_F0, its step 3; it stands at 1RECV_B0`, `
hangs after 0 of 4 messages
  rank 0 stands at step 1, 0SEND_F0: rank 1 has not come to 1RECV_F0, its step 1; it stands at 1RECV_B0
  rank 1 stands at step 0, 1RECV_B0: rank 2 has not come to 2SEND_B0, its step 3; it stands at 2RECV_F0
  rank 2 stands at step 0, 2RECV_F0: rank 1 has not come to 1SEND_F0, its step 3; it stands at 1RECV_B0`},
		{"nobody sends", `
			0F0 0RECV_B0
			1F0`, `
hangs after 0 of 1 messages
  rank 0 stands at step 1, 0RECV_B0: no rank has 1SEND_B0`, `
hangs after 0 of 1 messages
  rank 0 stands at step 1, 0RECV_B0: no rank has 1SEND_B0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for blocking, want := range map[bool]string{false: c.buffered, true: c.blocking} {
				err := parse(t, c.order).Hang(blocking)
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
		p := looped(t, name, graph.Shape{Ranks: 4, Microbatches: 8})
		late, err := p.Order.WithLateReceives()
		require.NoError(t, err)
		require.Equal(t, hangs, late.Hang(true) != nil, name)
	}
}

// An order of one's own is checked, messages and all.
func TestCustomErrors(t *testing.T) {
	for _, c := range []struct{ order, want string }{
		{"0F0 0SEND_F0 0RECV_B0 0B0\n1F0 1B0 1SEND_B0", "rank 1, step 0: 1F0 has no 1RECV_F0 before it, which brings what it needs\n"},
		{"0F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0, step 0: 0SEND_F0 is missing, which sends what 0F0 makes\n"},
		{"0F0 0SEND_F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0, step 2: 0SEND_F0 appears twice\n"},
		{"0SEND_F0 0F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0, step 0: 0SEND_F0 comes before 0F0, whose result it sends\n"},
		{"0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1SEND_F0 1B0 1SEND_B0", "rank 1, step 2: 1SEND_F0 is a message from or to a stage that does not exist; the stages are 0 to 1\n"},
		{"0F0 1SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0, step 1: 1SEND_F0: stage 1 belongs to rank 1; a SEND has the sender's stage, a RECV the receiver's\n"},
		{"0F0 0SEND_F0 1F0 1B0 0B0", "rank 0, step 1: 0SEND_F0: stages 0 and 1 are both on rank 0, so there is nothing to send\n"},
		{"0F0 0SEND_F0 0RECV_B0 0RECV_B1 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0: 0F1 is missing\n"},
		{"0F0 0B0\n1B0 1F0", "rank 1, step 0: 1B0 comes before its forward 1F0\n"},
		{"0F0 0B0 0F1 0B1\n1F1 1F0 1B0 1B1", "rank 0, step 1: 0B0 waits for ever"},
		{"0F0 0B0 0F2147483647 0B1", "stages 0 to 0 and microbatches 0 to 2147483647 would have 2147483648 forwards; there are 4 actions in all: number both from 0, without gaps"},
		{"0REDUCE_GRAD", "no rank computes anything: there is no F, B, I or W"},
		{"0SEND_F0\n1RECV_F0", "no rank computes anything: there is no F, B, I or W"},
		{"0F0\n0B0", "stage 0 is on rank 0 and on rank 1"},
	} {
		_, _, err := schedules.Custom("mine", parse(t, c.order))
		require.ErrorContains(t, err, c.want)
	}
	_, _, err := schedules.Custom("mine", order.Order{parse(t, "0F0 0B0")[0], nil})
	require.EqualError(t, err, "rank 1 has nothing to do: line 2 is empty")
	s, shape, err := schedules.Custom("mine", parse(t, "0F0 2F0 2B0 0B0\n1F0 3F0 3B0 1B0"))
	require.NoError(t, err)
	require.Equal(t, graph.Shape{Ranks: 2, Virtual: 2, Microbatches: 1}, shape)
	require.Equal(t, []int32{0, 1, 0, 1}, s.Placement(shape).First)
}
