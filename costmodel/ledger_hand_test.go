package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ordertest"
	"psim/schedules/graph"
)

// loss is the scalar that the last stage has of a microbatch.
const loss = 4

// Two linear layers of 3×3 and two samples, in fp32. Per sample fc0 keeps its
// input (12 bytes) until W; fc1 its input, which is fc0's output (12 until W),
// the logarithms of the probabilities (12) and the label (4) until I; both
// keep an output gradient (12) from I to W.

func TestLedgerByHandOneStage(t *testing.T) {
	w := workload(t, mlp(t, 2, 3), []int32{0}, 2)
	w.Training.Optimizer = "sgd"
	o := orderOf(t, "gpipe", w)
	trace := simulate(t, w, machine(), graphOf(t, w, o))
	require.Equal(t, []int64{2*(12+12+12+4) + loss}, ledger(t, trace))
	require.Equal(t, []int64{2 * 12 * 8}, trace.Persistent) // 12 parameters a layer: value and gradient
	trace = simulate(t, w, machine(), graphOf(t, w, splitOrders(o)["at once"]))
	require.Equal(t, []int64{2*(12+12+12+4+12) + loss}, ledger(t, trace)) // fc1's I frees 16 before fc0's needs 12
}

// On two ranks fc0's output is there twice: rank 0 keeps it for the gradient
// of its ReLU.
//
//	rank 0: 0F0 +48 (input, output); gradient arrives +24; 0B0 −72
//	rank 1: activations arrive +24; 1F0 +36 (60 less those); 1B0 +24 (the
//	        gradient to send) −60; sent −24
func TestLedgerByHandTwoStages(t *testing.T) {
	type change struct {
		task  string
		rank  int32
		bytes int64
	}
	changes := func(trace *graph.Trace) []change {
		var all []change
		for _, e := range ordertest.Memory(trace) {
			all = append(all, change{trace.Graph.Task(e.Task).String(), e.Rank, e.Bytes})
		}
		return all
	}
	w := workload(t, mlp(t, 2, 3), []int32{0, 1}, 2)
	o := orderOf(t, "gpipe", w)
	trace := simulate(t, w, machine(), graphOf(t, w, o))
	require.Equal(t, []change{
		{"0F0", 0, 48}, {"0SEND_F0", 1, 24}, {"1F0", 1, 36},
		{"1B0", 1, 24}, {"1B0", 1, -60}, {"1SEND_B0", 0, 24}, {"1SEND_B0", 1, -24}, {"0B0", 0, -72},
	}, changes(trace))
	require.Equal(t, []int64{72, 80 + loss}, ledger(t, trace))

	// In halves: I makes room for the output gradients of 24, too.
	trace = simulate(t, w, machine(), graphOf(t, w, splitOrders(o)["at once"]))
	require.Equal(t, []int64{96, 104 + loss}, ledger(t, trace))
}

// With full recomputation fc0 keeps its input, as before, until I, and
// recomputing brings back nothing that is larger.
func TestLedgerByHandRecompute(t *testing.T) {
	w := workload(t, mlp(t, 3, 3), []int32{0}, 2)
	w.Training.Recompute = "full"
	o := orderOf(t, "gpipe", w)
	trace := simulate(t, w, machine(), graphOf(t, w, o))
	require.Equal(t, []int64{2*(12+12+12+12+4) + loss}, ledger(t, trace))
}

// A stage that does not keep its result hands the buffer on: a message frees
// it, or the next stage of the same rank takes it over.
func TestLedgerByHandHandingOn(t *testing.T) {
	w := workload(t, smallGPT(t), []int32{0, 1, 0}, 1)
	const result = 16 * 32 * 4
	costs := costsOf(t, w, machine(), graphOf(t, w, orderOf(t, "gpipe", w)))
	send := costs.Task(&graph.Task{Kind: graph.SendForward, Stage: 0, Rank: 0, Peer: 1, Bytes: result})
	require.EqualValues(t, result, send.BytesAtStart)
	require.EqualValues(t, -result, send.BytesAtEnd)
	forward := func(placement []int32, stage int32) int64 {
		w := w
		w.Placement.First = placement
		costs := costsOf(t, w, machine(), graphOf(t, w, orderOf(t, "gpipe", w)))
		return costs.Task(&graph.Task{Kind: graph.Forward, Stage: stage}).BytesAtStart
	}
	require.Equal(t, forward([]int32{0, 1, 0}, 1), forward([]int32{0, 0, 1}, 1)) // taken over either way
}
