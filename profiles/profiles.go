// Package profiles reads traces of PyTorch's profiler (Kineto's JSON, as prof.export_chrome_trace writes it) and says
// what the time of a step went to.
//
// A trace has events of the host and of one device. Of a device, every kernel and copy is read and put into a class by
// its name (classes.go). Without a device, as under gloo, the operations of the CPU take their place. Where steps begin
// on the device is found from annotations, from launches, or from the order of kernels that repeats (steps.go): the
// host runs ahead, so its own ranges say when work was asked for and not when it ran.
package profiles

import "time"

// A RankProfile is what one rank did, by its trace.
type RankProfile struct {
	Name   string // of the file
	Rank   int    // -1 if neither the trace nor the name of the file says it
	World  int    // number of ranks, or 0
	Device string // name of the device, or nothing
	Host   bool   // there is no device: kernels are operations of the CPU

	kernels []kernel // by start
	names   []string // of kernels
	calls   []call   // of collectives
	steps   []span   // on the device, by start
	asked   []span   // by when the host asked for them, where that is known
	found   string   // how the steps were found, in words
}

// A kernel is a kernel or copy of the device, or an operation of the CPU. Times are nanoseconds of the trace's clock.
type kernel struct {
	start, end int64
	// launch is when the host asked for it, or 0. While a trace is read it is the number that links both.
	launch int64
	// wait is the time from its start in which a collective waits for other ranks, where that is known.
	wait   int64
	name   int32 // in names
	call   int32 // in calls, or -1
	thread int32 // the stream of a kernel, or the thread of an operation
	class  Class
}

// A call is what a trace says of a collective.
type call struct {
	name     string // as the library calls it, such as allreduce
	group    string // name and members of the process group
	members  int    // of the group, or 0
	elements int64  // of its input, or 0
}

// A span is a step or an annotation.
type span struct {
	start, end int64
	number     int
	last       bool // no step follows that would say when it ended
	thread     int32
}

// ClassTimes are the times of a step by class.
type ClassTimes [classes]time.Duration

// Sum returns the time of the step.
func (t *ClassTimes) Sum() (sum time.Duration) {
	for _, part := range t {
		sum += part
	}
	return sum
}
