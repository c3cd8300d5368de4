package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"psim"
	"psim/configs"
	"psim/exec/backend"
	"psim/exec/collectives"
	"psim/exec/measure"
	"psim/exec/run"
	"psim/internal/units"
	"psim/results"
	"psim/schedules/collective"
	"psim/schedules/graph"
)

// Collectives says which collective to run by itself, and the sizes of its tensors.
type Collectives struct {
	Devices        backend.Options
	Name           string // of a collective
	Ranks          int
	Sizes          []int64 // in bytes
	Warmup, Repeat int     // runs before the measured ones, and measured runs
	run.Options
	// Stage, if set, is called when another part of the work begins.
	Stage func(what string)
}

// Run runs the collective for every size, and predicts each from the times of its tasks alone.
// With an error it returns the sizes before it. Several processes all call it; only the first
// one returns something.
func (c Collectives) Run(ctx context.Context) (result results.CollectiveSizes, err error) {
	if c.World == nil {
		return c.run(ctx)
	}
	ctx, cancel := c.World.Context(ctx)
	defer cancel()
	if err = checkSame(ctx, c.World, fmt.Sprint(c.Name, c.Ranks, c.Sizes, c.Warmup, c.Repeat), otherFlags); err == nil {
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

// run runs and predicts every size, in this process's part of the run.
func (c Collectives) run(ctx context.Context) (result results.CollectiveSizes, err error) {
	row, err := collective.Find(c.Name)
	if err != nil {
		return result, err
	}
	if err := row.Legal(c.Ranks); err != nil {
		return result, err
	}
	opened, err := backend.OpenRanks(ctx, c.Ranks, c.Devices, c.World)
	if err != nil {
		return result, err
	}
	devices := opened.Devices
	defer backend.Close(devices)
	first := slices.IndexFunc(devices, func(d *backend.LocalDevice) bool { return d != nil })
	result = results.CollectiveSizes{
		Collective: c.Name, Devices: c.Ranks, Backend: devices[first].Description(), Result: row.Result,
		TimesComparable: opened.Comparable,
	}
	probes, err := c.sizes(ctx, devices, &result)
	result.Doubt(steadiness(0, probes), c.Devices.Unpinned())
	return result, err
}

// sizes runs every size. If times are comparable, it probes the devices before the first size
// and after each.
func (c Collectives) sizes(
	ctx context.Context, devices []*backend.LocalDevice, result *results.CollectiveSizes,
) (probes []measure.Probe, err error) {
	probe := func() error {
		if !result.TimesComparable {
			return nil
		}
		p, err := measure.NewProbe(ctx, devices, c.World)
		if err == nil {
			probes = append(probes, p)
		}
		return err
	}
	if err := probe(); err != nil {
		return nil, err
	}
	for _, bytes := range c.Sizes {
		length := bytes / collectives.NumberBytes
		if result.Result == graph.AllToAll { // equal parts for all ranks, as in nccl-tests
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
		if size.Time > 0 { // only the first process knows it
			size.BusBandwidth = results.BusShare(result.Result, c.Ranks) * float64(size.Bytes) / size.Time
		}
		result.Processes = participants(members)
		result.Sizes = append(result.Sizes, size)
	}
	return probes, nil
}

// size runs and predicts the collective on tensors of a number of elements.
func (c Collectives) size(
	ctx context.Context, devices []*backend.LocalDevice, length int64,
) (size results.CollectiveSize, members []run.Participant, err error) {
	size.Bytes = length * collectives.NumberBytes
	run := collectives.Benchmark{
		Call:   collective.Call{Collective: c.Name, Ranks: c.Ranks, Length: length},
		Warmup: c.Warmup, Repeats: c.Repeat, Options: c.Options,
	}
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

// predictCollective simulates the graph with the times of its tasks, plus a time for handing on
// from task to task. That is by how much a run whose tasks did nothing took longer than
// simulated, divided by the number of tasks on its longest path.
func predictCollective(m collectives.BenchmarkResult) (time.Duration, error) {
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

// simulated returns the time of the graph if its tasks take these times.
func simulated(m collectives.BenchmarkResult, busy func(task int) time.Duration) (time.Duration, error) {
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
