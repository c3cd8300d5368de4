package costmodel

import (
	"math"
	"slices"
	"time"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/costmodel/stages"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// HostTimes is [machine.host]: the threads that launch what devices compute. The
// zero value launches for nothing.
type HostTimes struct {
	// Operation is what launching an operation's kernel takes: the framework's
	// way to it and the driver's.
	Operation units.Duration `toml:"operation"`
	// Task is what comes before the first kernel of a task: waiting for a
	// message, the next batch, bookkeeping.
	Task units.Duration `toml:"task"`
	// Layer is what comes before every layer of a task, when the device has done what
	// was launched before: where a framework gathers and frees parameters layer by layer.
	Layer units.Duration `toml:"layer"`
	// Message is what comes besides before an F, B or I whose input is a message: launching
	// what is sent and received, and waiting for it. Threads of pipelines wait then.
	Message units.Duration `toml:"message"`
	// Threads is "rank", the default: every rank has its own; or "node": one
	// for all ranks of a node, as where one Python process drives them.
	Threads string `toml:"threads"`
	// Queue is how many tasks a thread may be ahead of a rank; 0 is no limit.
	Queue int `toml:"queue"`
	// Graphs is what CUDA graphs launch in its place: "none", the default; "fixed": all but what
	// a mixture's experts do and exchange, whose sizes follow from the tokens; or "all".
	Graphs string `toml:"graphs"`
	// Waits: a thread begins to launch a task when its inputs are there, as
	// with messages that are received synchronously.
	Waits bool `toml:"waits"`
}

// Settings describes [machine.host].
func (HostTimes) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "operation", Default: "0us", Example: `"10us"`, Range: taskTime(),
			Text: "to launch one kernel, such as a matrix product; by kernels where no stack is set: eager 13.5us, " +
				"compiled 6.8us, te 33.8us, megatron 52.95us",
		},
		{Key: "task", Default: "0us", Range: taskTime(), Text: "before the first kernel of every F, B, I and W"},
		{
			Key: "layer", Default: "0us", Range: taskTime(),
			Text: "before every layer of these, when the device has done what was launched: FSDP's bookkeeping",
		},
		{
			Key: "message", Default: "0us", Range: taskTime(),
			Text: "before an F, B or I whose input is a message, besides, when it is there: launching and awaiting " +
				"what is sent and received",
		},
		{
			Key: "threads", Example: `"rank"`, Unset: "rank", OneOf: []string{"rank", "node"},
			Text: "rank: every rank has one; node: the ranks of a node share one",
		},
		{
			Key: "queue", Default: 0, Range: setting.Between(0, math.MaxInt32),
			Text: "tasks that a thread may be ahead of its device; 0: any number",
		},
		{
			Key: "graphs", Example: `"none"`, Unset: graphsNone, OneOf: []string{graphsNone, graphsFixed, graphsAll},
			Text: "what CUDA graphs launch in its place. none; fixed: all but what a mixture's experts do, whose " +
				"sizes follow from the tokens; all",
		},
		{Key: "waits", Default: false, Text: "true: a thread waits for a task's inputs before it launches the task"},
	}
}

// The legal values of Host.Graphs.
const (
	graphsNone  = "none"
	graphsFixed = "fixed"
	graphsAll   = "all"
)

// launches counts the kernels of a pass of an operation that the thread launches.
func (h HostTimes) launches(c Compute, o network.Op, p network.Pass, samples int64) int {
	if h.Graphs == graphsAll || h.Graphs == graphsFixed && o.Routed != network.ByExpert && o.Exchanges[p].Collective != group.AllToAll {
		return 0
	}
	return c.kernels(o, p, samples)
}

// threads tells how the tasks of a graph are launched on a machine; nil where that
// costs nothing.
func (m *Machine) threads(g *graph.Graph) *graph.Host {
	h := m.Host
	messages := h.Message > 0 && g.Shape.Ranks > 1
	if (h.Operation == 0 || h.Graphs == graphsAll) && h.Task == 0 && h.Layer == 0 {
		if messages {
			return &graph.Host{Waits: true}
		}
		return nil
	}
	thread := make([]int32, g.Ranks())
	for r := range thread {
		thread[r] = int32(r)
		if h.Threads == "node" {
			thread[r] = m.Node(int32(r))
		}
	}
	return &graph.Host{Thread: thread, Queue: h.Queue, Waits: h.Waits || messages}
}

// A launch is what launching a task's kernels takes: the thread, and the device
// that waits for them, if it is there when launching begins.
type launch struct{ thread, lead time.Duration }

// launchesOf walks through the passes of a stage over a microbatch.
func launchesOf(c Compute, h HostTimes, known *walks, staged *stages.Staged, stage int, samples int64) byPass[launch] {
	walkers := [4]walker{}
	for i := range walkers {
		walkers[i] = walker{compute: c, host: h, samples: samples, launched: time.Duration(h.Task), known: known}
	}
	forward, input, weight, backward := &walkers[0], &walkers[1], &walkers[2], &walkers[3]
	layers := staged.Stages[stage].Layers
	for _, l := range layers {
		forward.layer(l, network.Forward)
	}
	for i, l := range slices.Backward(layers) {
		for _, again := range staged.Training.RepeatedBefore(layers, i) {
			input.repeated(again, staged.Training)
			backward.repeated(again, staged.Training)
		}
		input.layer(l, network.InputGradient)
		weight.layer(l, network.WeightGradient)
		backward.layer(l, network.InputGradient, network.WeightGradient)
	}
	return byPass[launch]{forward.launch(), input.launch(), weight.launch(), backward.launch()}
}
