package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psim"
	"psim/configs"
	"psim/exec"
	"psim/exec/programs"
	"psim/internal/units"
	"psim/results"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// Collectives says which collective is run by itself, and over which tensors.
type Collectives struct {
	Devices        exec.DeviceOptions
	Name           string // of a collective
	Ranks          int
	Sizes          []int64 // in bytes
	Warmup, Repeat int     // runs before those that are measured, and of them
	exec.RunOptions
	// Stage is called when another part of the work begins, if it is set.
	Stage func(what string)
}

// Run runs the collective for every size, and predicts each from what its tasks took alone.
// With an error it returns the sizes before it. Of several processes, which all call it, the
// first returns them.
func (c Collectives) Run(ctx context.Context) (result results.CollectiveSizes, err error) {
	if c.World == nil {
		return c.run(ctx)
	}
	ctx, cancel := c.World.Context(ctx)
	defer cancel()
	if err = agreed(ctx, c.World, fmt.Sprint(c.Name, c.Ranks, c.Sizes, c.Warmup, c.Repeat), otherFlags); err == nil {
		result, err = c.run(ctx)
	}
	if err != nil {
		c.World.Abort(err)
	}
	if c.World.Rank > 0 {
		result.Sizes = nil
	}
	return result, err
}

func (c Collectives) run(ctx context.Context) (result results.CollectiveSizes, err error) {
	row, err := collective.Find(c.Name)
	if err != nil {
		return result, err
	}
	if err := row.Legal(c.Ranks); err != nil {
		return result, err
	}
	devices, comparable, err := exec.OpenRanks(ctx, c.Ranks, c.Devices, c.World)
	if err != nil {
		return result, err
	}
	defer exec.CloseDevices(devices)
	first := slices.IndexFunc(devices, func(d *programs.Device) bool { return d != nil })
	result = results.CollectiveSizes{Collective: c.Name, Devices: c.Ranks, Backend: devices[first].Description(), Result: row.Result, TimesComparable: comparable}
	probes, err := c.sizes(ctx, devices, &result)
	result.Doubt(steadiness(0, probes), c.Devices.Unpinned())
	return result, err
}

// sizes runs every size, and probes the devices before the first and after each, where times
// are comparable.
func (c Collectives) sizes(ctx context.Context, devices []*programs.Device, result *results.CollectiveSizes) (probes []exec.Probe, err error) {
	probe := func() error {
		if !result.TimesComparable {
			return nil
		}
		p, err := exec.NewProbe(ctx, devices, c.World)
		if err == nil {
			probes = append(probes, p)
		}
		return err
	}
	if err := probe(); err != nil {
		return nil, err
	}
	for _, bytes := range c.Sizes {
		length := bytes / exec.NumberBytes
		if result.Result == graph.AllToAll { // equal parts for all, as in nccl-tests
			length -= length % int64(c.Ranks)
		}
		if length == 0 {
			continue
		}
		size, members, err := c.size(ctx, devices, length)
		if err == nil {
			err = probe()
		}
		if err != nil {
			return probes, fmt.Errorf("%s of %v: %w", c.Name, units.Bytes(bytes), err)
		}
		if size.Time > 0 { // which only the first knows
			size.BusBandwidth = results.BusShare(result.Result, c.Ranks) * float64(size.Bytes) / size.Time
		}
		result.Processes = placement(members)
		result.Sizes = append(result.Sizes, size)
	}
	return probes, nil
}

// size runs and predicts the collective on so many numbers.
func (c Collectives) size(ctx context.Context, devices []*programs.Device, length int64) (size results.CollectiveSize, members []exec.Member, err error) {
	size.Bytes = length * exec.NumberBytes
	run := exec.CollectiveRun{Call: collective.Call{Collective: c.Name, Ranks: c.Ranks, Length: length}, Warmup: c.Warmup, Repeats: c.Repeat, RunOptions: c.RunOptions}
	run.AtOnce = c.Devices.Cores()
	if c.Stage != nil {
		run.Stage = func(what string) { c.Stage(fmt.Sprintf("%s of %v: %s", c.Name, units.Bytes(size.Bytes), what)) }
	}
	measured, err := run.Measure(ctx, devices)
	if err != nil || c.World != nil && c.World.Rank > 0 {
		return size, nil, err
	}
	predicted, err := predictCollective(measured)
	size.Time, size.Predicted, size.Wrong = measured.Time.Seconds(), predicted.Seconds(), measured.Wrong
	return size, measured.Processes, err
}

// predictCollective simulates the graph with what its tasks take, and with what it takes to
// hand on from task to task: by how much the graph took longer whose tasks did nothing, over
// those of its longest path.
func predictCollective(m exec.CollectiveTime) (time.Duration, error) {
	path, err := simulated(m, func(int) time.Duration { return 1 })
	if err != nil || path == 0 {
		return 0, err
	}
	var passed time.Duration
	if m.Passed != nil {
		if passed, err = simulated(m, func(i int) time.Duration { return m.Passed[i] }); err != nil {
			return 0, err
		}
	}
	hand := max(0, m.Empty-passed) / path
	return simulated(m, func(i int) time.Duration { return hand + m.Alone[i] })
}

// simulated returns the time of the graph whose tasks take so long.
func simulated(m exec.CollectiveTime, busy func(task int) time.Duration) (time.Duration, error) {
	index := map[*graph.Task]int{}
	for i := range m.Graph.Classes { // every task is one
		index[&m.Graph.Classes[i]] = i
	}
	costs := graph.Costs{Cores: &graph.Cores{Number: m.Cores}}
	costs.Task = func(t *graph.Task) graph.Cost { return graph.Cost{Busy: busy(index[t])} }
	s, err := psim.Simulate(&configs.Experiment{Graph: m.Graph, Costs: costs})
	if err != nil {
		return 0, err
	}
	return s.Trace.End(), nil
}
