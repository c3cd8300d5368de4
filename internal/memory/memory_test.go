package memory_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/memory"
)

// A small graph fits into any machine.
func ExampleCheckTasks() {
	fmt.Println(memory.CheckTasks(1000))
	// Output: <nil>
}

func TestCheckTasks(t *testing.T) {
	require.Greater(t, memory.Free(), int64(1<<20))
	require.ErrorContains(t, memory.CheckTasks(1e15), "the graph would have about 1e+15 tasks and need about 420 PB of memory, of which ")
}
