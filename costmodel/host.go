package costmodel

import (
	"math"
	"slices"
	"time"

	"psim/costmodel/arch"
	"psim/costmodel/stages"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// Host is [machine.host]: the threads that launch what devices compute. The
// zero value launches for nothing.
type Host struct {
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
func (Host) Settings() []setting.Setting {
	return []setting.Setting{
		{Key: "operation", Default: "0us", Example: `"10us"`, Range: taskTime(), Text: "to launch one kernel, such as a matrix product; by kernels where no stack is set: eager 13.5us, compiled 6.8us, te 33.5us, megatron 52.95us"},
		{Key: "task", Default: "0us", Range: taskTime(), Text: "before the first kernel of every F, B, I and W"},
		{Key: "layer", Default: "0us", Range: taskTime(), Text: "before every layer of these, when the device has done what was launched: FSDP's bookkeeping"},
		{Key: "message", Default: "0us", Range: taskTime(), Text: "before an F, B or I whose input is a message, besides, when it is there: launching and awaiting what is sent and received"},
		{Key: "threads", Example: `"rank"`, Unset: "rank", OneOf: []string{"rank", "node"}, Text: "rank: every rank has one; node: the ranks of a node share one"},
		{Key: "queue", Default: 0, Range: setting.Between(0, math.MaxInt32), Text: "tasks that a thread may be ahead of its device; 0: any number"},
		{Key: "graphs", Example: `"none"`, Unset: graphsNone, OneOf: []string{graphsNone, graphsFixed, graphsAll}, Text: "what CUDA graphs launch in its place. none; fixed: all but what a mixture's experts do, whose sizes follow from the tokens; all"},
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
func (h Host) launches(c Compute, o arch.Op, p arch.Pass, samples int64) int {
	if h.Graphs == graphsAll || h.Graphs == graphsFixed && o.Routed != arch.ByExpert && o.Exchanges[p].Collective != arch.AllToAll {
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
func launchesOf(c Compute, h Host, plan *stages.Plan, stage int, samples int64) byPass[launch] {
	walkers := [4]walker{}
	for i := range walkers {
		walkers[i] = walker{compute: c, host: h, samples: samples, launched: time.Duration(h.Task)}
	}
	forward, input, weight, backward := &walkers[0], &walkers[1], &walkers[2], &walkers[3]
	layers := plan.Stages[stage].Layers
	for _, l := range layers {
		forward.layer(l, arch.Forward)
	}
	for i, l := range slices.Backward(layers) {
		for _, again := range plan.Training.Repeating(layers, i) {
			input.repeated(again, plan.Training)
			backward.repeated(again, plan.Training)
		}
		input.layer(l, arch.InputGradient)
		weight.layer(l, arch.WeightGradient)
		backward.layer(l, arch.InputGradient, arch.WeightGradient)
	}
	return byPass[launch]{forward.launch(), input.launch(), weight.launch(), backward.launch()}
}

// A walker follows a thread and a device through kernels, from when the thread
// begins to launch them: none runs before it is launched, nor before the one
// before it has ended.
type walker struct {
	compute        Compute
	host           Host
	samples        int64
	launched, ends time.Duration
	busy           time.Duration
}

// free reports whether kernels are launched for nothing: then there is nothing to follow.
func (w *walker) free() bool { return w.host.Operation == 0 && w.host.Layer == 0 }

func (w *walker) launch() launch {
	return launch{thread: w.launched, lead: max(w.ends, w.launched) - w.busy}
}

// prepare walks through what comes before a layer.
func (w *walker) prepare() {
	if w.host.Layer > 0 {
		w.launched = units.Sum(max(w.launched, w.ends), time.Duration(w.host.Layer))
	}
}

// layer walks through passes of a layer, those of a backward from its last
// operation to the first. One that was measured took its launches along.
func (w *walker) layer(l arch.Layer, passes ...arch.Pass) {
	if w.free() {
		return
	}
	w.prepare()
	which := timeOf(passes[0])
	switch {
	case len(passes) == 2 && w.compute.twoPass:
		w.twice(l)
		return
	case len(passes) == 2:
		which = backwardTime
	}
	if t, ok := w.compute.measured.at(l, which, w.samples); ok {
		w.kernels(0, t)
		return
	}
	if len(passes) == 2 {
		w.backward(l.Ops)
		return
	}
	ops := slices.Clone(l.Ops)
	if passes[0] != arch.Forward {
		slices.Reverse(ops)
	}
	w.operations(ops, passes...)
}

// twice walks through a backward in two passes.
func (w *walker) twice(l arch.Layer) {
	if _, ok := w.compute.measured.at(l, inputTime, w.samples); ok {
		w.kernels(0, w.compute.rewalk(l, w.samples))
	} else {
		for _, o := range slices.Backward(l.Rewalked()) {
			w.operations([]arch.Op{o}, arch.InputGradient)
		}
	}
	w.layer(l, arch.WeightGradient)
	w.layer(l, arch.InputGradient)
}

// repeated walks through what a layer did not keep and runs again.
func (w *walker) repeated(l arch.Layer, t arch.Training) {
	if w.free() {
		return
	}
	if _, ok := w.compute.measured.at(l, forwardTime, w.samples); ok {
		w.kernels(0, w.compute.Recompute(l, t, w.samples))
		return
	}
	w.operations(t.Repeated(l), arch.Forward)
}

// backward walks through a whole backward. Exchanges that run beside the products
// which follow them in forward order are launched before what hides them.
func (w *walker) backward(ops []arch.Op) {
	for _, step := range steps(ops) {
		w.step(step)
	}
}

// step walks through a step of a whole backward.
func (w *walker) step(ops []arch.Op) {
	if o := ops[0]; o.Class == arch.Exchange && o.Beside {
		w.beside(ops[1:], arch.InputGradient, o, arch.WeightGradient)
		w.beside(ops[1:], arch.WeightGradient, o, arch.InputGradient)
		return
	}
	w.operations(ops, arch.InputGradient, arch.WeightGradient)
}

// steps cuts operations in the order of a backward: each is a step by itself, and an
// exchange that runs beside the products after it is one with these.
func steps(ops []arch.Op) (list [][]arch.Op) {
	for end := len(ops); end > 0; {
		i := end - 1
		for i > 0 && hides(ops[i]) {
			i--
		}
		if o := ops[i]; o.Class != arch.Exchange || !o.Beside {
			i = end - 1
		}
		list = append(list, ops[i:end])
		end = i
	}
	return list
}

// beside walks through one pass of products and an exchange that runs next to it.
func (w *walker) beside(products []arch.Op, p arch.Pass, exchange arch.Op, q arch.Pass) {
	other := *w
	other.operations([]arch.Op{exchange}, q)
	w.launched = other.launched
	for _, o := range slices.Backward(products) {
		w.operations([]arch.Op{o}, p)
	}
	w.ends, w.busy = max(w.ends, other.ends), max(w.busy, other.busy)
}

// reversed walks through one pass of a backward, from the last operation.
func (w *walker) reversed(ops []arch.Op, p arch.Pass) {
	for _, o := range slices.Backward(ops) {
		w.operations([]arch.Op{o}, p)
	}
}

func (w *walker) operations(ops []arch.Op, passes ...arch.Pass) {
	if w.free() {
		return
	}
	for _, o := range ops {
		for _, p := range passes {
			w.kernels(w.host.launches(w.compute, o, p, w.samples), w.compute.Op(o, p, w.samples))
		}
	}
}

func (w *walker) kernels(n int, busy time.Duration) {
	w.launched = units.Sum(w.launched, time.Duration(n)*time.Duration(w.host.Operation))
	w.ends = units.Sum(max(w.ends, w.launched), busy)
	w.busy = units.Sum(w.busy, busy)
}
