package costmodel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
)

// By hand: a layer of 12 parameters over 5 replicas travels as 5 chunks of 3, so
// a sum needs room for 3 zeros and for the 3 numbers on their way. A unit of ZeRO
// 3 is 12 numbers when it has been gathered, and never more before; scattering it
// frees them.
func TestRoomOfCollectives(t *testing.T) {
	w := workload(t, mlp(t, 1, 3), []int32{0}, 1)
	for _, e := range []struct {
		replicas, zero int
		kind           graph.Kind
		start, end     int64
	}{
		{5, 0, graph.AllReduce, 4 * (3 + 3), -4 * (3 + 3)},
		{3, 0, graph.AllReduce, 4 * 4, -4 * 4},
		{5, 2, graph.ReduceScatter, 4 * (3 + 3), -4 * (3 + 3 + 12)},
		{5, 3, graph.AllGather, 4 * 12, 0},
		{5, 3, graph.ReduceScatter, 4 * (3 + 3), -4 * (3 + 3 + 12)},
	} {
		w.Replicas, w.Zero = e.replicas, e.zero
		w = synced(w, 1<<20, false)
		g := graphOf(t, w, orderOf(t, "ddp", w))
		costs, found := costsOf(t, w, machine(), g), 0
		for i := range int32(g.Len()) {
			if task := new(g.Task(i)); task.Kind == e.kind && task.Stage == 0 {
				c := costs.Task(task)
				require.Equal(t, [2]int64{e.start, e.end}, [2]int64{c.BytesAtStart, c.BytesAtEnd}, "%+v", e)
				found++
			}
		}
		require.Positive(t, found)
	}
}
