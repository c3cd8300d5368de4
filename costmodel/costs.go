// Package costmodel computes the costs of the tasks of a graph: their times and how they change
// the memory in use.
//
// There are four sources of costs, all of which give a [graph.Costs]:
//
//   - [Times], explicit durations, which need neither a network nor a machine;
//   - [StepCosts], a network of package network that is trained on a [Machine];
//   - [SpelledCosts], only the links of a machine, for spelled-out collectives;
//   - [Profiled], the times of tasks that were measured one by one.
//
// The time of a compute task is a sum over its operations: a launch cost plus the longer of
// computing and moving memory (a roofline) at achievable rates. A layer that was [Measured] on the
// device has the measured time. A message takes latency plus bytes over bandwidth, and queues for
// its link. A fused collective takes the time that was measured on its link, or else that of the
// closed form of an algorithm.
//
// A rank stands for the devices of one tensor-parallel group, which all do the same: memory, FLOPs
// and bytes are those of one device, and exchanges among the devices are part of a task's time (see
// [graph.Inner]).
package costmodel

import (
	"fmt"
	"time"

	"psim/costmodel/memory"
	"psim/costmodel/stages"
	"psim/schedules/graph"
)

// Prices holds the costs of the tasks of a plan of stages on a machine. It can price several graphs
// that differ only in the order of their tasks, and computes what these have in common once. Any
// number of goroutines may use it.
type Prices struct {
	machine    Machine
	passes     *passPrices
	collective func(*graph.Task) time.Duration
	updates    updates
	ledger     *memory.Ledger
	persistent []int64
}

// NewPrices prices a plan for graphs with the shape, placement and groups of g, which need not have
// tasks. The ledger is that of the plan.
func NewPrices(m Machine, staged *stages.Staged, ledger *memory.Ledger, g *graph.Graph) (*Prices, error) {
	compute, err := m.slowest(g.Ranks()).Compute(staged.Training)
	if err != nil {
		return nil, err
	}
	if err := m.check(g); err != nil {
		return nil, err
	}
	if err := m.Cores.check(&m, g); err != nil {
		return nil, err
	}
	passes, err := newPassPrices(compute, m.Host, staged, g.Placement)
	if err != nil {
		return nil, err
	}
	return &Prices{
		machine: m, passes: passes, collective: m.collectives(staged, g),
		updates: newUpdates(m, compute, staged, g),
		ledger:  ledger, persistent: memory.Persistent(staged, g.Ranks()),
	}, nil
}

// StepCosts prices the tasks of a graph that was wired from a plan, on a machine.
func StepCosts(m Machine, staged *stages.Staged, g *graph.Graph) (graph.Costs, error) {
	prices, err := NewPrices(m, staged, memory.NewLedger(staged, g), g)
	if err != nil {
		return graph.Costs{}, err
	}
	return prices.Costs(g)
}

// Costs prices the tasks of a graph that was wired from the plan.
func (p *Prices) Costs(g *graph.Graph) (graph.Costs, error) {
	m := &p.machine
	if err := m.checkTimes(g, p.collective, p.updates); err != nil {
		return graph.Costs{}, err
	}
	costs := graph.Costs{
		Persistent: p.persistent, Host: m.threads(g), Cores: m.Cores.slowdown(g), ByMicrobatch: g.Stashing,
		Ports: m.ports(g), Period: m.period(g),
	}
	costs.Task = p.task(g, costs.Host != nil)
	return costs, nil
}

// Unlaunched returns what the tasks of a graph cost without the time in which a host launches them.
func (p *Prices) Unlaunched(g *graph.Graph) (func(*graph.Task) graph.Cost, error) {
	return p.task(g, false), p.machine.checkTimes(g, p.collective, p.updates)
}

// task returns the costs of a graph's tasks, with or without their launches.
func (p *Prices) task(g *graph.Graph, launched bool) func(*graph.Task) graph.Cost {
	m, passes, ledger := &p.machine, p.passes.in(g, launched), p.ledger.In(g)
	return func(t *graph.Task) graph.Cost {
		var c graph.Cost
		switch k := t.Kind; {
		case k.Compute():
			c = passes.task(t)
		case k == graph.SendForward, k == graph.SendBackward:
			c = m.message(t)
		case k.Collective():
			c.Busy = p.collective(t)
		case k == graph.Average:
			c.Busy = p.updates.average(t)
		case k == graph.Optimizer:
			c.Busy = p.updates.step(t)
		case k == graph.Zero:
			c.Busy = p.updates.compute.Move(t.Bytes)
		case k.Staging():
			c = m.hostCopy(t)
		}
		c.BytesAtStart, c.BytesAtEnd = ledger.Task(t)
		return c
	}
}

// collectives returns the times of a graph's collectives.
func (m *Machine) collectives(staged *stages.Staged, g *graph.Graph) func(*graph.Task) time.Duration {
	groups, exchanges := m.groups(g), m.allToAlls(staged, g)
	byOwner := staged.UpdatedByOwner && !staged.Gathers()
	return func(t *graph.Task) time.Duration {
		if t.Kind == graph.AllToAll {
			return exchanges[t.Peer].time(t.Bytes)
		}
		l, n := groups[t.Peer], g.Members(t.Peer)
		if byOwner && t.Kind == graph.AllGather {
			return l.OwnersTime(n, t.Bytes)
		}
		return l.CollectiveTime(t.Kind, n, t.Bytes)
	}
}

// check refuses a machine without a link that the graph needs.
func (m *Machine) check(g *graph.Graph) error {
	noun, devices := "ranks", g.Ranks()*m.Devices()
	if m.Devices() > 1 {
		noun = "devices"
	}
	for _, size := range []int{m.tensor(), m.Devices()} {
		if n := m.DevicesPerNode; n > 0 && n%size != 0 && size%n != 0 {
			keys := "parallel.tensor"
			if size != m.tensor() {
				keys += " × parallel.context"
			}
			return fmt.Errorf("devices_per_node = %d: some groups of %s = %d would be in two nodes; "+
				"one must divide the other", n, keys, size)
		}
	}
	return m.checkLinks(devices, noun)
}

// Joined refuses a number of devices that have no link between them, or whose nodes have no
// network.
func (m *Machine) Joined(devices int) error { return m.checkLinks(devices, "devices") }

func (m *Machine) checkLinks(devices int, noun string) error {
	if devices > 1 && m.Link.Bandwidth == 0 && m.DevicesPerNode != 1 {
		return fmt.Errorf("link: %d %s need one between them; name it, such as link = \"pcie4\" (psim list devices), "+
			"or give [machine.link] bandwidth and latency", devices, noun)
	}
	if n := m.DevicesPerNode; n > 0 && devices > n && m.Network.Bandwidth == 0 {
		return fmt.Errorf("network: %d %s take %d nodes (devices_per_node = %d), and no network joins them; "+
			"name one, such as network = \"ib-hdr\"", devices, noun, (devices+n-1)/n, n)
	}
	return nil
}

// hostCopy prices a copy between a device and its host. The copies of a rank queue for each other.
func (m *Machine) hostCopy(t *graph.Task) graph.Cost {
	return graph.Cost{
		Busy: m.HostLink.Transfer(t.Bytes), Delay: time.Duration(m.HostLink.Latency), Link: 4*t.Rank + 4,
	}
}

// message prices a transfer between two ranks.
func (m *Machine) message(t *graph.Task) graph.Cost {
	path := m.Between(t.Rank, t.Peer)
	return graph.Cost{Busy: path.Transfer(t.Bytes), Delay: time.Duration(path.Latency), Link: path.Queue}
}
