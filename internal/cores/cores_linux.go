package cores

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Allowed lists the cores that this process may run on.
func Allowed() (list []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("asking which cores may be used: %w", err)
	}
	for core := 0; len(list) < set.Count(); core++ {
		if set.IsSet(core) {
			list = append(list, core)
		}
	}
	return list, nil
}

// Stay keeps the calling goroutine on one core until leave is called, from the same
// goroutine. Goroutines that it starts meanwhile run anywhere.
func Stay(core int) (leave func(), err error) {
	runtime.LockOSThread()
	var before, one unix.CPUSet
	one.Set(core)
	if err = unix.SchedGetaffinity(0, &before); err == nil {
		err = unix.SchedSetaffinity(0, &one)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("staying on core %d: %w", core, err)
	}
	return func() {
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with its goroutine, so that no other is kept there
	}, nil
}
