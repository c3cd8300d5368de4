package cores

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Steady keeps the runtime from interrupting the calling goroutine in the middle of a loop
// until leave is called, from the same goroutine. The runtime does so every ten
// milliseconds, and restores the processor's wide registers in a way that leaves them in
// use: until some copy clears them, arithmetic by number takes up to five times as long.
// Function calls still let the goroutine be stopped, for the garbage collector's sake.
func Steady() (leave func()) {
	runtime.LockOSThread()
	var before, urgent unix.Sigset_t
	urgent.Val[0] = 1 << (unix.SIGURG - 1) // what the runtime interrupts with
	if unix.PthreadSigmask(unix.SIG_BLOCK, &urgent, &before) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		if unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) == nil {
			runtime.UnlockOSThread()
		} // else the thread ends with its goroutine
	}
}
