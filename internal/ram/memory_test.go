package ram_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/ram"
)

// A small graph fits into any machine.
func ExampleCheckTasks() {
	fmt.Println(ram.CheckTasks(1000))
	// Output: <nil>
}

func TestCheckTasks(t *testing.T) {
	require.Greater(t, ram.Free(), int64(1<<20))
	require.ErrorContains(t, ram.CheckTasks(1e15), "the graph would have about 1e+15 tasks and need about 420 PB of memory, but only ")
}
