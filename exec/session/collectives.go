package session

import (
	"context"
	"fmt"
	"time"

	"psim"
	"psim/configs"
	"psim/exec"
	"psim/exec/programs"
	"psim/internal/units"
	"psim/reports"
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
	// Each, which may be nil, is told of every size before it is run.
	Each func(bytes int64)
}

// Run runs the collective for every size, and predicts each from what its tasks took alone.
// With an error it returns the sizes before it.
func (c Collectives) Run(ctx context.Context) (result reports.CollectiveSizes, err error) {
	row, err := collective.Find(c.Name)
	if err != nil {
		return result, err
	}
	if err := row.Legal(c.Ranks); err != nil {
		return result, err
	}
	devices, err := exec.OpenDevices(c.Ranks, c.Devices)
	if err != nil {
		return result, err
	}
	defer exec.CloseDevices(devices)
	result = reports.CollectiveSizes{Collective: c.Name, Devices: c.Ranks, Backend: devices[0].Description(), Result: row.Result}
	for _, bytes := range c.Sizes {
		length := bytes / exec.NumberBytes
		if row.Result == graph.AllToAll { // equal parts for all, as in nccl-tests
			length -= length % int64(c.Ranks)
		}
		if length == 0 {
			continue
		}
		size, err := c.size(ctx, devices, length)
		if err != nil {
			return result, fmt.Errorf("%s of %s: %w", c.Name, units.FormatBytes(bytes), err)
		}
		size.BusBandwidth = reports.BusShare(row.Result, c.Ranks) * float64(size.Bytes) / size.Time
		result.Sizes = append(result.Sizes, size)
	}
	return result, nil
}

// size runs and predicts the collective on so many numbers.
func (c Collectives) size(ctx context.Context, devices []*programs.Device, length int64) (size reports.CollectiveSize, err error) {
	size.Bytes = length * exec.NumberBytes
	if c.Each != nil {
		c.Each(size.Bytes)
	}
	run := exec.CollectiveRun{Call: collective.Call{Collective: c.Name, Ranks: c.Ranks, Length: length}, Warmup: c.Warmup, Repeats: c.Repeat, RunOptions: c.RunOptions}
	run.AtOnce = c.Devices.Cores()
	measured, err := run.Measure(ctx, devices)
	if err != nil {
		return size, err
	}
	predicted, err := predictCollective(measured)
	size.Time, size.Predicted, size.Wrong = measured.Time.Seconds(), predicted.Seconds(), measured.Wrong
	return size, err
}

// predictCollective simulates the graph with what its tasks take, and with what it takes to
// hand on from task to task: by how much the graph took longer whose tasks only let that
// time pass, over the tasks of its longest path.
func predictCollective(m exec.CollectiveTime) (time.Duration, error) {
	path, err := simulated(m, func(int) time.Duration { return 1 })
	if err != nil || path == 0 {
		return 0, err
	}
	passed, err := simulated(m, func(i int) time.Duration { return m.Tasks[i] })
	if err != nil {
		return 0, err
	}
	hand := max(0, m.Handing-passed) / path
	return simulated(m, func(i int) time.Duration { return hand + m.Tasks[i] })
}

// simulated returns the time of the graph whose tasks take so long.
func simulated(m exec.CollectiveTime, busy func(task int) time.Duration) (time.Duration, error) {
	costs := graph.Costs{Cores: &graph.Cores{Number: m.Cores}}
	index := map[*graph.Task]int{}
	for i := range m.Graph.Tasks {
		index[&m.Graph.Tasks[i]] = i
	}
	costs.Task = func(t *graph.Task) graph.Cost { return graph.Cost{Busy: busy(index[t])} }
	s, err := psim.Simulate(&configs.Plan{Graph: m.Graph, Costs: costs})
	if err != nil {
		return 0, err
	}
	return s.Trace.End(), nil
}
