package cores_test

import (
	"fmt"
	"runtime"
	"sync"
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

// A process that is confined has these cores in all of its threads, also in those that start later, and all
// of them again when it leaves. The number of goroutines that run at once stays.
func TestConfine(t *testing.T) {
	all, atOnce := affinity(t), runtime.GOMAXPROCS(0)
	elsewhere := func() (list []int) {
		var done sync.WaitGroup
		done.Go(func() {
			runtime.LockOSThread() // a thread that ends with the goroutine
			list = affinity(t)
		})
		done.Wait()
		return list
	}
	for _, few := range [][]int{all[:1], all[len(all)-1:], all} {
		leave, err := cores.Confine(few)
		require.NoError(t, err)
		require.Equal(t, few, affinity(t))
		for range 8 {
			require.Equal(t, few, elsewhere())
		}
		require.Equal(t, atOnce, runtime.GOMAXPROCS(0))
		leave()
		require.Equal(t, all, affinity(t))
		require.Equal(t, all, elsewhere())
	}
	_, err := cores.Confine([]int{all[len(all)-1] + 1}) // which there is not
	require.ErrorContains(t, err, "staying on cores [")
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
