package ram

import (
	"runtime"
	"runtime/debug"
)

// HeapShare is the share of the free memory that a process may fill with its heap. The rest
// is for the program itself, its stacks and other processes.
const HeapShare = 0.9

// garbage bounds the bytes that may pile up, while the collector is on hold, before they are
// collected anyway.
const garbage = 4 << 30

// Heap returns the bytes in use on this process's heap, garbage included.
func Heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// LimitHeap keeps the heap within HeapShare of the memory that is free now: above that
// the collector runs at any time. Call undo to restore the former limit.
func LimitHeap() (undo func()) {
	limit := debug.SetMemoryLimit(Heap() + int64(HeapShare*float64(Free())))
	return func() { debug.SetMemoryLimit(limit) }
}

// HoldGarbage keeps the collector out of measured time: it runs only when it is called, or
// when memory gets short. Call resume to restore the former settings.
func HoldGarbage() (resume func()) {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(limit, Heap()+garbage))
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}
