package courses

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"psim"
	"psim/configs"
	"psim/internal/units"
)

// A trial is a run that is to be measured.
type trial struct {
	*Run
	config *configs.Config
	pass   time.Duration // expected of a step, on this machine's cores
	serial time.Duration // of a step whose tasks run one by one
}

// trials prepares all runs at a size: the first, by which the others are judged, then
// those that are asked for, and then the rest, the quickest first.
func (m *measuring) trials(s size) (list []trial, err error) {
	for _, run := range m.Runs {
		t := trial{Run: run}
		c, err := run.shrink(s)
		if err == nil {
			t.config, _, err = c.Executable(0)
		}
		if err == nil {
			err = t.expect()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", run.Name, err)
		}
		list = append(list, t)
	}
	slices.SortStableFunc(list[1:], func(a, b trial) int {
		if a.Asked != b.Asked {
			return map[bool]int{true: -1, false: 1}[a.Asked]
		}
		return cmp.Compare(m.expect(a, leastSteps), m.expect(b, leastSteps))
	})
	return list, nil
}

// expect predicts the step on this machine from the rates of psim's own.
func (t *trial) expect() error {
	plan, err := t.config.Build()
	if err != nil {
		return err
	}
	simulation, err := psim.Simulate(plan)
	if err != nil {
		return err
	}
	for _, r := range simulation.Summary.Ranks {
		t.serial += r.Compute + r.ExposedCommunication + r.Optimizer
	}
	t.pass = max(simulation.Summary.StepTime, t.serial/time.Duration(runtime.NumCPU()))
	return nil
}

// shared reports whether a run has more workers than there are cores.
func (r *Run) shared() bool { return r.Predicted.Devices > runtime.NumCPU() }

// sharing says how many do.
func (r *Run) sharing() string {
	return fmt.Sprintf("oversubscribed: %d workers share %s", r.Predicted.Devices, units.Plural(runtime.NumCPU(), "core"))
}

// shrink makes the configuration of a run at a size.
func (e experiment) shrink(s size) (*configs.Config, error) {
	c, err := e.load()
	if err != nil {
		return nil, err
	}
	sets := slices.Clone(s.sets)
	if preset := s.presets[c.Model.Preset]; preset != "" {
		sets = append(sets, "model.preset="+preset)
	}
	if s.divisor > 1 {
		data, m := int64(max(1, c.Parallel.Data)), int64(max(1, c.Schedule.Microbatches))
		sets = append(sets, fmt.Sprint("batch.global=", max(batch(c)/s.divisor, m)*data))
	}
	return c.With(sets...)
}

// shrinks says in what trials of a size are smaller than the assignment's own.
func (s size) shrinks(trials []trial) []string {
	list := slices.Clone(s.text)
	batches := ""
	for _, t := range trials {
		now, was := batch(t.config), int64(math.Round(t.Predicted.Throughput.Samples*t.Predicted.StepTime))/int64(t.Predicted.DataParallel)
		if part := fmt.Sprintf("%d instead of %d", now, was); now < was && t.Asked && !strings.Contains(batches, part) {
			batches += ", of " + part
		}
	}
	if batches != "" {
		list = append(list, "batches of "+batches[len(", of "):]+" samples")
	}
	return list
}

// batch returns the samples of a replica in a step.
func batch(c *configs.Config) int64 { return c.Batch.Global / int64(max(1, c.Parallel.Data)) }
