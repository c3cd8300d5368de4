package order_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/graph"
	"psim/schedules/order"
)

// Files that PyTorch 2.15 dumped (_dump_csv, 4 ranks × 8 microbatches): read to the letter,
// runnable, and where psim puts the waits is where PyTorch puts them.
func TestWaitsArePyTorchs(t *testing.T) {
	for _, name := range []string{"Interleaved1F1B", "ZBVZeroBubble", "DualPipeV"} {
		text, err := os.ReadFile("testdata/" + name + ".comms.csv")
		require.NoError(t, err)
		o, err := order.ReadCSV(strings.NewReader(string(text)))
		require.NoError(t, err, name)
		require.Equal(t, strings.ReplaceAll(string(text), "\r", ""), ordertest.CSV(t, o), name)
		p, err := o.Placement()
		require.NoError(t, err, name)
		require.NoError(t, o.CheckMessages(p), name)
		require.NoError(t, o.Hang(false), name)

		older := o.WithoutWaits()
		require.False(t, older.HasWaits(), name)
		require.Equal(t, o.Compute(), older.Compute(), name)
		require.Equal(t, o, o.WithWaits(), name)
		require.Equal(t, sends(o), sends(older.WithWaits()), name)
	}
}

// sends returns an order without the WAIT_REDUCE_GRADs, which PyTorch places before it adds
// messages: a RECV may stand between a REDUCE_GRAD and its wait.
func sends(o order.Order) string {
	for r := range o {
		o[r] = slices.DeleteFunc(slices.Clone(o[r]), func(a order.Action) bool { return a.Kind == graph.WaitGradient })
	}
	return o.String()
}

func TestWaits(t *testing.T) {
	o, err := ordertest.Order(t, "1f1b", 2, 2).WithMessages()
	require.NoError(t, err)
	all := o.WithWaits()
	require.Equal(t, ordertest.Text(`
		0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0WAIT_SEND_F0 0RECV_B1 0B1 0WAIT_SEND_F1
		1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1WAIT_SEND_B0 1WAIT_SEND_B1`), all.String())
	require.NoError(t, all.Hang(true))

	// Two ranks that wait for their sends before they receive: only a buffer lets them go on.
	crossed := ordertest.Parse(t, `
		0F0 0SEND_F0 0F1 0SEND_F1 0WAIT_SEND_F0 0WAIT_SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1
		1RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1WAIT_SEND_B1`)
	require.NoError(t, crossed.Hang(false))
	require.EqualError(t, crossed.Hang(true), strings.TrimPrefix(`
hangs after 1 of 4 messages
  rank 0 is blocked at step 5, 0WAIT_SEND_F1: rank 1 has not reached 1RECV_F1, its step 5; it is blocked at 1WAIT_SEND_B0
  rank 1 is blocked at step 4, 1WAIT_SEND_B0: rank 0 has not reached 0RECV_B0, its step 6; it is blocked at 0WAIT_SEND_F1`, "\n"))
}

func TestWaitErrors(t *testing.T) {
	for in, want := range map[string]string{
		"0F0 0SEND_F0 0RECV_B0 0B0 0WAIT_SEND_F0\n1RECV_F0 1F0 1B0 1SEND_B0":               "1SEND_B0 has no 1WAIT_SEND_B0 after it, which PyTorch needs from 2.15 on",
		"0F0 0WAIT_SEND_F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1B0 1SEND_B0 1WAIT_SEND_B0": "0WAIT_SEND_F0 has no 0SEND_F0 before it, for which it waits",
	} {
		o := ordertest.Parse(t, in)
		err := o.CheckMessages(graph.Placement{First: []int32{0, 1}})
		require.ErrorContains(t, err, want)
	}
}
