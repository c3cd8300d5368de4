package costmodel

import (
	"math"
	"slices"
	"time"

	"psim/costmodel/group"
	"psim/costmodel/network"
	"psim/internal/setting"
	"psim/internal/units"
	"psim/schedules/graph"
)

// HostTimes is [machine.host]: the time that threads take to launch what devices compute. With
// the zero value launching takes no time.
type HostTimes struct {
	// Operation is the time to launch an operation's kernel, in the framework and the driver.
	Operation units.Duration `toml:"operation"`
	// Task is the time before the first kernel of a task: to wait for a message, for the next
	// batch, and for bookkeeping.
	Task units.Duration `toml:"task"`
	// Layer is the time before every layer of a task, after the device has finished the kernels
	// launched before: frameworks that gather and free parameters layer by layer need it.
	Layer units.Duration `toml:"layer"`
	// Message is the additional time before an F, B or I whose input is a message: to launch
	// sends and receives and to wait for them. The threads of a pipeline wait in that case.
	Message units.Duration `toml:"message"`
	// Threads is "rank", the default: every rank has its own thread; or "node": the ranks of a
	// node share one, as when one Python process drives them.
	Threads string `toml:"threads"`
	// Queue is how many tasks a thread may be ahead of a rank; 0 means no limit.
	Queue int `toml:"queue"`
	// Graphs says which kernels CUDA graphs launch instead of the thread: "none", the default;
	// "fixed": all except those of a mixture's experts and their exchanges, whose sizes depend
	// on the tokens; or "all".
	Graphs string `toml:"graphs"`
	// Waits: a thread begins to launch a task when its inputs have arrived, as it does when it
	// receives messages synchronously.
	Waits bool `toml:"waits"`
}

// Settings describes [machine.host].
func (HostTimes) Settings() []setting.Setting {
	return []setting.Setting{
		{
			Key: "operation", Prices: []string{graph.Launches}, Try: []string{"0us"},
			Default: "0us", Example: `"10us"`, Range: taskTime(),
			Text: "time to launch one kernel, such as a matrix product. Without a stack, model.kernels sets it " +
				"(psim list kernels -v): eager 13.5us, compiled 6.8us, te 33.9us, megatron 52.95us",
		},
		{
			Key: "task", Prices: []string{graph.Launches}, Try: []string{"0us"}, Default: "0us", Range: taskTime(),
			Text: "before the first kernel of every F, B, I and W",
		},
		{
			Key: "layer", Prices: []string{graph.Launches}, Try: []string{"0us"},
			Default: "0us", Range: taskTime(),
			Text: "before every layer of these, after the device has finished earlier kernels: FSDP's bookkeeping",
		},
		{
			Key: "message", Prices: []string{graph.Launches},
			Default: "0us", Range: taskTime(),
			Text: "in addition, before an F, B or I whose input is a message, after it has arrived: to launch sends " +
				"and receives and wait for them",
		},
		{
			Key: "threads", Prices: []string{graph.Launches},
			Example: `"rank"`, Unset: "rank", OneOf: []string{"rank", "node"},
			Text: "rank: every rank has one; node: the ranks of a node share one",
		},
		{
			Key: "queue", Prices: []string{graph.Launches},
			Default: 0, Range: setting.Between(0, math.MaxInt32),
			Text: "tasks that a thread may be ahead of its device; 0: any number",
		},
		{
			Key: "graphs", Prices: []string{graph.Launches},
			Example: `"none"`, Unset: graphsNone, OneOf: []string{graphsNone, graphsFixed, graphsAll},
			Text: "which kernels CUDA graphs launch instead of the thread. none; fixed: all except those of a " +
				"mixture's experts, whose sizes depend on the tokens; all",
		},
		{
			Key: "waits", Prices: []string{graph.Launches}, Default: false,
			Text: "true: a thread waits for a task's inputs before it launches the task",
		},
	}
}

// The legal values of Host.Graphs.
const (
	graphsNone  = "none"
	graphsFixed = "fixed"
	graphsAll   = "all"
)

// launches counts the kernels of a pass of an operation that the thread launches.
func (h HostTimes) launches(c *Compute, o network.Op, p network.Pass, samples int64) int {
	fixed := o.Routed != network.ByExpert && o.Exchanges[p].Collective != group.AllToAll
	if h.Graphs == graphsAll || h.Graphs == graphsFixed && fixed {
		return 0
	}
	return c.kernels(o, p, samples)
}

// threads says which threads launch the tasks of a graph on a machine, or returns nil if
// launching takes no time.
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

// A launch holds the time to launch a task's kernels: thread is the time that the thread is
// busy; lead is the time that a device waits for its kernels if it is free when launching begins.
type launch struct{ thread, lead time.Duration }

// stageLaunch walks through the passes of a stage over a microbatch.
func (p *pricer) stageLaunch(stage int, samples int64) byPass[launch] {
	walkers := [5]walker{}
	for i := range walkers {
		walkers[i] = walker{
			compute: &p.compute, host: p.host, samples: samples,
			launched: time.Duration(p.host.Task), known: p.walks,
		}
	}
	forward, input, weight, backward, loss := &walkers[0], &walkers[1], &walkers[2], &walkers[3], &walkers[4]
	layers := p.staged.Stages[stage].Layers
	for i, l := range layers {
		in := forward
		if p.staged.LossApart(stage) && i == len(layers)-1 {
			in = loss
		}
		in.layer(l, network.Forward)
	}
	for i, l := range slices.Backward(layers) {
		for _, again := range p.staged.Training.RepeatedBefore(layers, i) {
			input.repeated(again, p.staged.Training)
			backward.repeated(again, p.staged.Training)
		}
		input.layer(l, network.InputGradient)
		weight.layer(l, network.WeightGradient)
		backward.layer(l, network.InputGradient, network.WeightGradient)
	}
	return byPass[launch]{forward.launch(), input.launch(), weight.launch(), backward.launch(), loss.launch()}
}
