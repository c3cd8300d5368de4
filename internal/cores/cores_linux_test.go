package cores_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"psim/internal/cores"
)

// affinity lists the cores that the calling thread may run on.
func affinity(t *testing.T) []int {
	list, err := cores.Allowed()
	require.NoError(t, err)
	return list
}

// A goroutine that stays has one core, and all of them again when it leaves.
func TestStay(t *testing.T) {
	all := affinity(t)
	require.NotEmpty(t, all)
	for _, core := range all {
		for range 3 { // the thread that leaves is as good as any
			leave, err := cores.Stay(core)
			require.NoError(t, err)
			require.Equal(t, []int{core}, affinity(t))
			elsewhere := make(chan []int)
			go func() { elsewhere <- affinity(t) }()
			require.Equal(t, all, <-elsewhere)
			leave()
			require.Equal(t, all, affinity(t))
		}
	}
	_, err := cores.Stay(all[len(all)-1] + 1) // which there is not
	require.ErrorContains(t, err, "staying on core")
	require.Equal(t, all, affinity(t))
}

// A goroutine works on one core for a while.
func ExampleStay() {
	allowed, err := cores.Allowed()
	if err != nil {
		fmt.Println(err)
		return
	}
	leave, err := cores.Stay(allowed[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leave()
	now, _ := cores.Allowed()
	fmt.Println("on", len(now), "core")
	// Output: on 1 core
}
