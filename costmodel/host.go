package costmodel

import (
	"fmt"
	"time"

	"psim/costmodel/arch"
	"psim/internal/units"
	"psim/schedules"
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
	// Threads is "rank", the default: every rank has its own; or "node": one
	// for all ranks of a node, as where one Python process drives them.
	Threads string `toml:"threads"`
	// Queue is how many tasks a thread may be ahead of a rank; 0 is no limit.
	Queue int `toml:"queue"`
	// Waits: a thread begins to launch a task when its inputs are there, as
	// with messages that are received synchronously.
	Waits bool `toml:"waits"`
}

// Validate reports a key with a value that is none of the legal ones.
func (h Host) Validate() error {
	switch {
	case h.Threads != "" && h.Threads != "rank" && h.Threads != "node":
		return fmt.Errorf(`threads = %q: must be "rank" or "node"`, h.Threads)
	case h.Queue < 0:
		return fmt.Errorf("queue = %d: must be a number of tasks, or 0 for no limit", h.Queue)
	}
	if err := checkLongest("operation", time.Duration(h.Operation)); err != nil {
		return err
	}
	return checkLongest("task", time.Duration(h.Task))
}

// threads is how the tasks of a graph are launched on a machine; nil where that
// costs nothing.
func (m *Machine) threads(g *schedules.Graph) *schedules.Host {
	h := m.Host
	if h.Operation == 0 && h.Task == 0 {
		return nil
	}
	thread := make([]int32, g.Ranks())
	for r := range thread {
		thread[r] = int32(r)
		if h.Threads == "node" {
			thread[r] = m.node(int32(r))
		}
	}
	return &schedules.Host{Before: schedules.LaunchOrder(g, thread), Queue: h.Queue, Waits: h.Waits}
}

// A launches is how many kernels the passes of a stage launch.
type launches struct{ forward, input, weight int }

// launchesOf counts those of every stage. What was measured took its launches
// along.
func (w Workload) launchesOf(c Compute) []launches {
	list := make([]launches, len(w.Layers))
	for s := range list {
		n := &list[s]
		for _, l := range w.Stage(s) {
			if _, measured := c.measured.at(l, forwardTime, 1); measured {
				continue
			}
			n.forward += kernels(l.Ops, arch.Forward)
			n.input += kernels(l.Ops, arch.InputGradient) + kernels(w.Training.Repeated(l), arch.Forward)
			n.weight += kernels(l.Ops, arch.WeightGradient)
		}
	}
	return list
}

func kernels(ops []arch.Op, p arch.Pass) int {
	n := 0
	for _, o := range ops {
		n += o.Kernels(p)
	}
	return n
}

// launching adds to the price of computing tasks what their launch takes. A slice
// of a backward has its share, by time.
func (p *pricer) launching(t *schedules.Task) schedules.Cost {
	cost := p.task(t)
	if !t.Kind.Compute() {
		return cost
	}
	n, price := p.launches[t.Stage], &p.prices[t.Stage][p.sizeOf[t.Microbatch]]
	var count int
	var whole time.Duration
	switch t.Kind {
	case schedules.Forward:
		count, whole = n.forward, price.forward
	case schedules.InputGradient:
		count, whole = n.input, total(price.recompute, price.input)
	case schedules.WeightGradient:
		count, whole = n.weight, price.weight
	default:
		count, whole = n.input+n.weight, price.backward()
	}
	cost.Lead = time.Duration(p.machine.Host.Task)
	if t.Part > 0 {
		cost.Lead = 0
	}
	kernels := time.Duration(count) * time.Duration(p.machine.Host.Operation)
	if cost.Busy != whole && whole > 0 {
		kernels = nanoseconds(float64(kernels) * float64(cost.Busy) / float64(whole))
	}
	cost.Launch = total(cost.Lead, kernels)
	return cost
}
