package graph

import "time"

// A Cost is what running one task takes.
type Cost struct {
	// Busy is how long the task holds its stream, and its link if it has one.
	Busy time.Duration
	// Delay postpones what depends on the task beyond its end, and holds
	// nothing: the latency of a link.
	Delay time.Duration
	// BytesAtStart and BytesAtEnd change the memory in use on the task's rank
	// when it starts and ends. Those at the start of a message fall on the
	// receiving rank, which must be able to hold it.
	BytesAtStart, BytesAtEnd int64
	// Link is the shared queue that the task also waits for and holds while
	// busy: a network card, a host bridge. 0 is none.
	Link int32
	// Launch is how long a host thread is busy launching the task's kernels, and
	// LaunchLead how long a device that is there when launching begins waits for them,
	// all in all. They count where Costs.Host is given, for tasks that are
	// neither collectives nor on a link.
	Launch, LaunchLead time.Duration
	// Inner is communication that is part of the task itself; nil where there is
	// none.
	Inner *Inner
}

// Inner is communication within tasks, among the devices that a rank stands
// for, which do all the same.
type Inner struct {
	Within
	// Context is the part of it among devices that have parts of the same sequences. The
	// rest is among those of tensor-parallel groups.
	Context Within
}

// Within is communication within tasks.
type Within struct {
	// Communication is how long it takes; Exposed is the part in which the task
	// computes nothing, and so a part of its Busy.
	Communication, Exposed time.Duration
	SentBytes              int64 // by every device
}

// Plus adds two tasks' communication.
func (a Inner) Plus(b Inner) Inner { return Inner{a.Within.Plus(b.Within), a.Context.Plus(b.Context)} }

// Plus adds the communication of two.
func (a Within) Plus(b Within) Within {
	return Within{a.Communication + b.Communication, a.Exposed + b.Exposed, a.SentBytes + b.SentBytes}
}

// Less takes a part of it away.
func (a Inner) Less(b Inner) Inner { return Inner{a.Within.less(b.Within), a.Context.less(b.Context)} }

func (a Within) less(b Within) Within {
	return Within{a.Communication - b.Communication, a.Exposed - b.Exposed, a.SentBytes - b.SentBytes}
}

// Tensor is what is among the devices of tensor-parallel groups.
func (a Inner) Tensor() Within { return a.Within.less(a.Context) }

// Costs is what a simulation needs to know beyond the graph.
type Costs struct {
	// Task prices a task. Tasks of one class must cost the same, and those of one fused collective.
	Task func(t *Task) Cost
	// ByMicrobatch says that tasks of one class do not cost the same.
	ByMicrobatch bool
	// Persistent is the memory of every rank that stays through the step:
	// parameters, gradients, optimizer states. Nil means none.
	Persistent []int64
	// Host is how tasks are launched; nil where that costs nothing.
	Host *Host
	// Cores are what tasks take from each other; nil where nothing.
	Cores *Cores
}

// Cores are those of one machine on which all ranks run. Tasks that run at the same time
// share them and their memory. They do not count beside a Host.
type Cores struct {
	// Number is how many tasks can run at once, ranks of a collective one by one: of more
	// than that each has an equal share of the time. 0 is no limit.
	Number int
	// Pinned says that what rank r runs stays on core r, modulo their number.
	Pinned bool
	// Slower returns how much longer a task takes while as many other ranks run something as
	// can than it takes alone: 1 is not at all. While a part of them do, it is that part slower.
	Slower func(t *Task) float64
}

// A Host is the threads that launch tasks on devices. A thread launches its
// tasks one after another and does not wait for them to run, as with CUDA's
// streams: it may be ahead of its devices, and a device whose thread is behind
// stands still.
//
// A task starts when it is ready, but no earlier than its launch lead after its launch
// begins. So spans show what devices do, and the gap before them what they wait
// for, although that is really spread over the task.
type Host struct {
	// Thread is that of every rank. Several ranks may have the same, as where one
	// process drives several devices. It launches computing tasks by clock cycle,
	// counted as if every task took one, and in a cycle by stage: the order of
	// torchgpipe's loop (Kim et al. 2020, section 3.2). Nil means that no task is
	// launched after another, as is right for threads that wait.
	Thread []int32
	// Queue is how far a thread may be ahead: it begins to launch a task when
	// the one so many places before it on its stream has started. 0 is no limit.
	Queue int
	// Waits says that a thread begins to launch a task when it is ready, as
	// where messages are received synchronously.
	Waits bool
}
