package schedules

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/schedules/graph"
)

// The orders of many shapes, as they were when every move was tried by counting a
// rank's activations anew.
func TestBlocksStay(t *testing.T) {
	for name, want := range map[string]string{
		"v-half": "79bf66136ff26baa080166b9c27208d9b983f534e11a04d324758d440d5d94d8",
		"v-min":  "db40085e9412f0d47050c4d0d67842d8fa73973a3ccb77058a9bfa0cf39ccf86",
	} {
		s, err := Find(name)
		require.NoError(t, err)
		sum := sha256.New()
		for _, shape := range blockShapes() {
			o, err := s.Order(shape, nil)
			require.NoError(t, err)
			fmt.Fprint(sum, o)
		}
		require.Equal(t, want, fmt.Sprintf("%x", sum.Sum(nil)), name)
	}
}

// blockShapes are small shapes of all kinds and some large ones.
func blockShapes() []graph.Shape {
	shapes := []graph.Shape{{Ranks: 40, Microbatches: 10}, {Ranks: 33, Microbatches: 70}, {Ranks: 2, Microbatches: 500}}
	for p := 1; p <= 12; p++ {
		for m := 1; m <= 27; m++ {
			shapes = append(shapes, graph.Shape{Ranks: p, Microbatches: m})
		}
	}
	return shapes
}

// Trying a move allocates nothing: there are as many lists as ranks, however many
// moves are tried.
func TestBlocksWork(t *testing.T) {
	shape := graph.Shape{Ranks: 60, Microbatches: 60}
	for _, s := range []Schedule{vHalf(), vMin()} {
		lists := float64(150 * shape.Ranks)
		require.Less(t, testing.AllocsPerRun(1, func() { s.order(shape, nil) }), lists, s.Name)
	}
}

// BenchmarkBlocks lays out 300 ranks and 600 microbatches.
func BenchmarkBlocks(b *testing.B) {
	shape := graph.Shape{Ranks: 300, Microbatches: 600}
	for _, s := range []Schedule{vHalf(), vMin()} {
		b.Run(s.Name, func(b *testing.B) {
			for b.Loop() {
				s.order(shape, nil)
			}
		})
	}
}
