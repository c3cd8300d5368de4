package collective_test

import (
	"fmt"

	"psim/schedules/collective"
)

// The all-gather of a ring of three: what rank 0 sends, and what it takes in.
func Example() {
	g, err := collective.Call{Collective: collective.RingAllGather, Ranks: 3, Length: 9}.Graph()
	if err != nil {
		panic(err)
	}
	for i, task := range g.Tasks() {
		if task.Rank == 0 {
			fmt.Println(g.Describe(int32(i)), task.Bytes, "bytes")
		}
	}
	// Output:
	// SEND.0 to rank 1 (chunk sent; rank 0, stream "send to 1") 3 bytes
	// COPY.2 (chunk replaced; rank 0, stream "reduce") 3 bytes
	// SEND.2 to rank 1 (chunk sent; rank 0, stream "send to 1") 3 bytes
	// COPY.1 (chunk replaced; rank 0, stream "reduce") 3 bytes
}
