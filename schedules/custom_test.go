package schedules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/files"
	"psim/internal/ordertest"
	"psim/schedules"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// An order of one's own is checked, messages and all.
func TestCustomErrors(t *testing.T) {
	for _, c := range []struct{ order, want string }{
		{"0F0 0SEND_F0 0RECV_B0 0B0\n1F0 1B0 1SEND_B0", "rank 1, step 0: 1F0 needs a 1RECV_F0 before it, which receives its input\n"},
		{"0F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0, step 0: 0SEND_F0, which sends the result of 0F0, is missing\n"},
		{"0F0 0SEND_F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0, step 2: 0SEND_F0 appears twice\n"},
		{"0SEND_F0 0F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0, step 0: 0SEND_F0 comes before 0F0, whose result it sends\n"},
		{"0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1SEND_F0 1B0 1SEND_B0", "rank 1, step 2: 1SEND_F0 is a message from or to a stage that does not exist; the stages are 0 to 1\n"},
		{"0F0 1SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0, step 1: 1SEND_F0: stage 1 belongs to rank 1; a SEND has the sender's stage, a RECV the receiver's\n"},
		{"0F0 0SEND_F0 1F0 1B0 0B0", "rank 0, step 1: 0SEND_F0: stages 0 and 1 are both on rank 0, so there is nothing to send\n"},
		{"0F0 0SEND_F0 0RECV_B0 0RECV_B1 0B0\n1RECV_F0 1F0 1B0 1SEND_B0", "rank 0: 0F1 is missing\n"},
		{"0F0 0B0\n1B0 1F0", "rank 1, step 0: 1B0 comes before its forward 1F0\n"},
		{"0F0 0B0 0F1 0B1\n1F1 1F0 1B0 1B1", "rank 0, step 1: 0B0 waits forever"},
		{"0F0 0B0 0F2147483647 0B1", "stages 0 to 0 and microbatches 0 to 2147483647 would have 2147483648 forwards; there are 4 actions in all: number both from 0, without gaps"},
		{"0REDUCE_GRAD", "no rank computes anything: the order has no F, B, I or W"},
		{"0SEND_F0\n1RECV_F0", "no rank computes anything: the order has no F, B, I or W"},
		{"0F0\n0B0", "stage 0 is on rank 0 and on rank 1"},
	} {
		_, _, err := schedules.Custom("mine", ordertest.Parse(t, c.order))
		require.ErrorContains(t, err, c.want)
	}
	_, _, err := schedules.Custom("mine", order.Order{ordertest.Parse(t, "0F0 0B0")[0], nil})
	require.EqualError(t, err, "rank 1 has nothing to do: line 2 is empty")
	s, shape, err := schedules.Custom("mine", ordertest.Parse(t, "0F0 2F0 2B0 0B0\n1F0 3F0 3B0 1B0"))
	require.NoError(t, err)
	require.Equal(t, graph.Shape{Ranks: 2, Virtual: 2, Microbatches: 1}, shape)
	require.Equal(t, []int32{0, 1, 0, 1}, s.Placement(shape).First)
}

// runs requires that a schedule's order, wired, reaches its end.
func runs(t rapid.TB, s schedules.Schedule, shape graph.Shape) {
	t.Helper()
	p, err := s.Pipeline(shape, nil)
	require.NoError(t, err)
	ordertest.Relax(t, ordertest.Graph(t, p), ordertest.Unit)
}

// The file of any schedule is that schedule: the same order, on the same ranks, and
// both copies of those that have two. With messages it is, too, but for pairs; and
// where PyTorch puts them, it runs to its end even if sends last until they are
// received.
func TestFilesOfSchedules(t *testing.T) {
	for _, s := range schedules.Catalog() {
		for _, shape := range ordertest.Served(s, 6, 14, 4) {
			want, err := s.Pipeline(shape, nil)
			require.NoError(t, err)
			read, err := order.ReadCSV(strings.NewReader(ordertest.CSV(t, want.Order)))
			require.NoError(t, err)
			own, size, err := schedules.Custom("mine", read)
			require.NoError(t, err, "%s %+v", s.Name, shape)
			got, err := own.Pipeline(size, nil)
			require.NoError(t, err)
			require.Equal(t, want.Order, got.Order)
			require.Equal(t, want.Placement.First, got.Placement.First)
			require.Equal(t, want.Placement.Second, got.Placement.Second)
			require.Equal(t, want.Shape.Ranks, got.Shape.Ranks)
			require.Equal(t, want.Shape.Microbatches, got.Shape.Microbatches)

			messages, err := want.Order.WithMessages()
			require.NoError(t, err)
			require.NoError(t, messages.Hang(true))
			own, _, err = schedules.Custom("mine", messages)
			require.NoError(t, err)
			o, err := own.Order(size, nil)
			require.NoError(t, err)
			require.Equal(t, strings.NewReplacer("(", "", ")OVERLAP_F_B", "", ";", " ").Replace(want.Order.String()), o.String())
			require.Equal(t, want.Placement.Second, own.Placement(size).Second)
		}
	}
}

// Two copies are read off an order only where every stage has both, the first half
// of an even number of microbatches is on one, and two ranks share all their stages.
func TestCopiesInFiles(t *testing.T) {
	for name, c := range map[string]string{
		"legal":             "0F0 1F1 1B1 0B0\n1F0 0F1 0B1 1B0",
		"odd":               "0F0 1F2 1B2 0B0 0F1 0B1\n1F0 1F1 0F2 0B2 1B0 1B1",
		"halves mixed":      "0F0 1F1 1B1 0B0 0F3 0B3 1F2 1B2\n1F0 0F1 0B1 1B0 1F3 1B3 0F2 0B2",
		"one stage is once": "0F0 1F1 1B1 0B0 1F0 1B0\n0F1 0B1",
		"not in pairs":      "0F0 2F1 2B1 0B0\n1F0 0F1 0B1 1B0\n2F0 1F1 1B1 2B0",
	} {
		own, shape, err := schedules.Custom("mine", ordertest.Parse(t, c))
		if name != "legal" {
			require.ErrorContains(t, err, "; a stage is on one rank, or all are on two, one for each half of the microbatches\n", name)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []int32{1, 0}, own.Placement(shape).Second)
		runs(t, own, shape)
	}
	_, _, err := schedules.Custom("mine", ordertest.Parse(t, "0F0 1F1 1B1 0B0\n1F0 0F1 1B0"))
	require.ErrorContains(t, err, "rank 1: the backward 0B1 is missing")
}

// Whatever can be read can be written and read again, the same; and it is either
// refused or runs to its end.
func FuzzReadCSV(f *testing.F) {
	for _, seed := range []string{"0F0,0B0\n1F0,1B0\n", "0F0,,0BW0", " 0I0\r\n\r\n1W2147483647,", "00F01", "0F0\n0F0", "🦆", ",,,", "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", "0F0,2F0,2B0,0B0\n1F0,1B0", "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0I1", "0UNSHARD,0F0,0B0,0RESHARD,0REDUCE_GRAD", "0REDUCE_GRAD", "0F0,1F1,1B1,0B0\n1F0,0F1,0B1,1B0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		o, err := order.ReadCSV(strings.NewReader(in))
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		back, err := order.ReadCSV(strings.NewReader(ordertest.CSV(t, o)))
		require.NoError(t, err)
		require.Equal(t, o, back)
		if s, shape, err := schedules.Custom("fuzz", o); err == nil {
			runs(t, s, shape)
		} else {
			require.NotEmpty(t, err.Error())
		}
	})
}

// Whatever the schedule: with messages it can be written, read, checked and
// stripped of them again; every message stands between different ranks, has one
// other end, and PyTorch's places never make anybody wait in a circle.
func TestMessagesOfSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := ordertest.Draw(t)
		for _, add := range []func() (order.Order, error){p.Order.WithMessages, p.Order.WithLateReceives} {
			all, err := add()
			if err != nil { // a placement that leaves a rank without stages
				require.ErrorContains(t, err, "stage")
				return
			}
			back, err := order.ReadCSV(strings.NewReader(ordertest.CSV(t, all)))
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

// PyTorch's own file of 1F1B is illegal, and the error says why.
func TestPyTorchs1F1B(t *testing.T) {
	o, err := files.Read("testdata/1F1B.csv", order.ReadCSV)
	require.NoError(t, err)
	_, _, err = schedules.Custom("1F1B.csv", o)
	require.ErrorContains(t, err, "rank 3, step 1: 3B0 comes before its forward 3F0; PyTorch's file of 1F1B has this fault: "+
		"it numbers the forwards of rank 3 from 1; psim schedule 1f1b writes the order\n")
	require.Less(t, len(err.Error()), 1000)
}
