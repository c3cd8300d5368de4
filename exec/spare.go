package exec

import "runtime"

// spare lets Go run one thread more than a process has that is bound to a single core, and
// returns what takes it back: who receives from other processes has to be heard while a task
// computes, which else waits for the scheduler to interrupt that, 10 ms.
func spare() func() {
	cores := runtime.GOMAXPROCS(0)
	if cores > 1 {
		return func() {}
	}
	runtime.GOMAXPROCS(cores + 1)
	return func() { runtime.GOMAXPROCS(cores) }
}
