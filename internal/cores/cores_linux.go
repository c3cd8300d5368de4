package cores

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

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

// Confine keeps every thread of this process, and those that it starts, on some cores until leave is
// called. A library that counts cores when it is loaded then finds no others.
func Confine(list []int) (leave func(), err error) {
	var before, few unix.CPUSet
	for _, core := range list {
		few.Set(core)
	}
	if err = unix.SchedGetaffinity(0, &before); err == nil {
		// Otherwise the runtime goes by the cores that are left, and its threads wait for calls of C.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
		err = confineThreads(few)
	}
	if err != nil {
		confineThreads(before)
		return nil, fmt.Errorf("staying on cores %v: %w", list, err)
	}
	return func() { confineThreads(before) }, nil
}

// confineThreads gives all threads the same cores. A thread that begins meanwhile has those of the one that
// starts it, so it goes on until there is no other.
func confineThreads(set unix.CPUSet) error {
	done := map[int]bool{}
	for more := true; more; {
		more = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil || done[id] {
				continue
			}
			if err = unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return err
			}
			done[id], more = true, true
		}
	}
	return nil
}
