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
	each   int           // steps of an epoch, or 1
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
			err = t.expect(m.course)
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
		return cmp.Compare(m.expect(a, least), m.expect(b, least))
	})
	return list, nil
}

// expect predicts the step on this machine from the rates of psim's own.
func (t *trial) expect(c course) error {
	plan, err := t.config.Build()
	if err != nil {
		return err
	}
	if t.each = 1; c.epochs {
		t.each = int((t.config.Data.Samples + plan.Samples - 1) / plan.Samples)
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
		data, floor := int64(max(1, c.Parallel.Data)), int64(1)
		if c.Schedule.Name != "ddp" { // a sample for each microbatch, and as many with other modes
			floor = int64(max(4, c.Schedule.Microbatches))
		}
		sets = append(sets, fmt.Sprint("batch.global=", max(batch(c)/s.divisor, floor)*data))
		if c.Data.Samples > 0 {
			sets = append(sets, fmt.Sprint("data.samples=", s.samples()))
		}
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
	if s.divisor > 1 && trials[0].config.Data.Samples > 0 {
		list = append(list, fmt.Sprintf("epochs of %d samples instead of 5,000", s.samples()))
	}
	if batches != "" {
		list = append(list, "batches of "+batches[len(", of "):]+" samples")
	}
	return list
}

// samples counts those of a shrunk epoch: four steps of one replica with 64 samples, and
// no fewer than a pipeline of eight microbatches takes.
func (s size) samples() int64 { return max(8, 4*64/s.divisor) }

// batch returns the samples of a replica in a step.
func batch(c *configs.Config) int64 { return c.Batch.Global / int64(max(1, c.Parallel.Data)) }
