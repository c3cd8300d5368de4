package session_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/exec/exectest"
	"psim/exec/session"
	"psim/schedules/collective"
)

// Every collective leaves the right numbers, also for tensors smaller than the group, and has a
// prediction.
func TestCollectives(t *testing.T) {
	for _, name := range collective.Names() {
		for _, ranks := range []int{2, 3, 4} {
			row, err := collective.Find(name)
			require.NoError(t, err)
			if row.Legal(ranks) != nil {
				continue
			}
			found, err := session.Collectives{
				Devices: exectest.Options(), Name: name, Ranks: ranks, Sizes: []int64{8, 4096, 40000},
				Warmup: 1, Repeat: 2,
			}.Run(t.Context())
			require.NoError(t, err)
			for _, s := range found.Sizes {
				require.Zero(t, s.Wrong, "%s of %d bytes over %d", name, s.Bytes, ranks)
				require.Positive(t, s.Predicted)
				require.Positive(t, s.BusBandwidth)
			}
			require.GreaterOrEqual(t, len(found.Sizes), 2)
		}
	}
}

// A collective over two devices leaves the right sums.
func ExampleCollectives() {
	found, err := session.Collectives{Devices: exectest.Options(), Name: collective.RingAllReduce,
		Ranks: 2, Sizes: []int64{1 << 10}, Repeat: 1}.Run(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(found.Collective, found.Sizes[0].Bytes, "bytes,", found.Sizes[0].Wrong, "wrong")
	// Output: ring-allreduce 1024 bytes, 0 wrong
}
