package wiring_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"psim/internal/ordertest"
	"psim/internal/ram"
	"psim/schedules"
	"psim/schedules/wiring"
)

// sameSize requires that the tasks are counted before they are made.
func sameSize(t rapid.TB, p wiring.Pipeline) {
	t.Helper()
	n, err := wiring.Size(p)
	require.NoError(t, err)
	require.EqualValues(t, ordertest.Graph(t, p).Len(), n, "%s %+v %+v", p.Name, p.Shape, p.Sync)
}

// The count of tasks is exact, with any schedule and any way to sum gradients: the
// guard of memory rests on it.
func TestSize(t *testing.T) {
	for _, s := range schedules.Catalog() {
		for _, shape := range ordertest.Served(s, 4, 4, 2) {
			p, err := s.Pipeline(shape, nil)
			require.NoError(t, err)
			n := p.Placement.Stages()
			if n == 0 {
				n = shape.Ranks
			}
			sameSize(t, p)
			for mode := range 32 {
				p := p
				p.Shape.Replicas, p.Optimizer = 2, mode&1 > 0
				p.Sync = wiring.Sync{Overlap: mode&2 > 0, Sharded: mode&12 > 0, EveryMicrobatch: mode&8 > 0, Parameters: make([][]int64, n)}
				for i := range n {
					p.Sync.Buckets = append(p.Sync.Buckets, make([]int64, i%4))
					p.Sync.Parameters[i] = make([]int64, (i+1)%3)
					if mode&16 > 0 {
						p.Sync.Ahead = append(p.Sync.Ahead, make([]int64, i%3))
					}
				}
				if _, err := p.Graph(); err != nil {
					continue // a combination that is refused
				}
				sameSize(t, p)
			}
		}
	}
}

func TestSizeOfAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sameSize(t, rapid.SampledFrom([]func(*rapid.T) wiring.Pipeline{ordertest.Draw, drawUnits, drawSynchronous}).Draw(t, "kind")(t))
	})
}

// Gradients in many buckets are most of the tasks of a step, and are refused before
// they are made.
func TestGuard(t *testing.T) {
	p := ordertest.Pipeline(t, "ddp", 1, 1, 0)
	p.Shape.Replicas, p.Optimizer = 100_000, true
	p.Sync = wiring.Sync{Buckets: [][]int64{make([]int64, 10_000)}}
	if ram.Free() > 400<<30 {
		t.Skip("this machine has memory for it")
	}
	_, err := p.Graph()
	require.ErrorContains(t, err, "the graph would have about 1e+09 tasks and need about 420 GB of memory, but only ")
}
