package graph

import "time"

// A Cost is what running one task takes.
type Cost struct {
	// Busy is how long the task occupies its stream, and its link if it has one.
	Busy time.Duration
	// Delay is the time from the task's end until dependent tasks may start, such as the
	// latency of a link. It occupies neither the stream nor the link.
	Delay time.Duration
	// BytesAtStart and BytesAtEnd change the memory in use on the task's rank
	// when it starts and ends. BytesAtStart of a message counts on the receiving rank, which
	// needs a buffer for it.
	BytesAtStart, BytesAtEnd int64
	// Link is the shared queue, such as a network card or a host bridge, that the task also
	// waits for and occupies while it is busy. 0 means that it uses no link.
	Link int32
	// Launch is how long a host thread is busy launching the task's kernels. LaunchLead is how
	// long a device that is idle when launching begins waits for kernels, in total. Both count
	// only with Costs.Host, for tasks that are neither collectives nor on a link.
	Launch, LaunchLead time.Duration
	// Inner is communication inside the task; nil for tasks without any.
	Inner *Inner
}

// Inner is communication inside a task, among the devices that a rank stands
// for, which all do the same.
type Inner struct {
	Within
	// Context is the part among devices that have parts of the same sequences. The
	// rest is among the devices of tensor-parallel groups.
	Context Within
}

// Within is an amount of communication inside tasks.
type Within struct {
	// Communication is how long it takes. Exposed is the part during which the task
	// computes nothing; it is included in the task's Busy.
	Communication, Exposed time.Duration
	SentBytes              int64 // by every device
}

// Plus adds the communication of two tasks.
func (a Inner) Plus(b Inner) Inner { return Inner{a.Within.Plus(b.Within), a.Context.Plus(b.Context)} }

// Plus adds two amounts.
func (a Within) Plus(b Within) Within {
	return Within{a.Communication + b.Communication, a.Exposed + b.Exposed, a.SentBytes + b.SentBytes}
}

// Less subtracts a part.
func (a Inner) Less(b Inner) Inner { return Inner{a.Within.less(b.Within), a.Context.less(b.Context)} }

func (a Within) less(b Within) Within {
	return Within{a.Communication - b.Communication, a.Exposed - b.Exposed, a.SentBytes - b.SentBytes}
}

// Tensor is the communication among the devices of tensor-parallel groups.
func (a Inner) Tensor() Within { return a.Within.less(a.Context) }

// Costs is everything that a simulation needs besides the graph.
type Costs struct {
	// Task returns the cost of a task. It must be the same for all tasks of a class, and for all
	// ranks of a fused collective.
	Task func(t *Task) Cost
	// ByMicrobatch says that the tasks of a class differ in cost after all.
	ByMicrobatch bool
	// Persistent is the memory that every rank holds during the whole step:
	// parameters, gradients, optimizer states. Nil means 0.
	Persistent []int64
	// Host describes how tasks are launched; nil where launching costs nothing.
	Host *Host
	// Cores describes how tasks slow each other down; nil where they do not.
	Cores *Cores
	// Ports says what shares links; nil where nothing does. Ports are ignored where there are Cores.
	Ports *Ports
	// Period is a number of replicas: if the first Period of them are alike, all are. 0 means that
	// each has to be compared.
	Period int
}

// Cores are the processor cores of one machine on which all ranks run. Tasks that run at the
// same time share the cores and their memory. Cores are ignored where there is a Host.
type Cores struct {
	// Number is how many tasks can run at once; every rank of a collective counts as one. If
	// more run, each has an equal share of the time. 0 means no limit.
	Number int
	// Pinned says that the tasks of rank r always run on core r, modulo Number.
	Pinned bool
	// Slower returns by which factor a task slows down while every other rank runs something
	// (or as many as the cores allow). While a fraction of them do, that fraction of the
	// slowdown applies.
	Slower func(t *Task) float64
}

// A Host is the threads that launch tasks on devices. A thread launches its
// tasks one after another and does not wait for them to run, as with CUDA's
// streams: it may be ahead of its devices, and a device whose thread is behind
// stands still.
//
// A task starts when it is ready, but no earlier than its launch lead after its launch
// begins. So the time that a device waits for launches appears as a gap before the task,
// although it is really spread over the task.
type Host struct {
	// Thread is the thread of every rank. Several ranks may share one, as where one
	// process drives several devices. It launches computing tasks by clock cycle,
	// counted as if every task took one, and within a cycle by stage: the order of
	// torchgpipe's loop (Kim et al. 2020, section 3.2). Nil means that no launch waits for
	// another, as is right for threads that wait for their device.
	Thread []int32
	// Queue is how far a thread may be ahead: it begins to launch a task when
	// the task Queue places before it on its stream has started. 0 means no limit.
	Queue int
	// Waits says that a thread begins to launch a task only when the task is ready, as
	// where messages are received synchronously.
	Waits bool
}
