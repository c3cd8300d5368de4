package courses

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"psim"
	"psim/configs"
	"psim/internal/units"
)

// A trial is a run that is to be measured.
type trial struct {
	*ReproducedRun
	config *configs.Config
	each   int           // steps of an epoch, or 1
	pass   time.Duration // expected of a step, on this machine's cores
	serial time.Duration // of a step whose tasks run one by one
}

// trials prepares all runs at a size: the first, then the others that the assignment asks for,
// and then the rest, the quickest first.
func (m *measuring) trials(s size) (list []trial, err error) {
	for _, run := range m.Runs {
		t := trial{ReproducedRun: run}
		c, err := run.assigned.shrink(s)
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
		if c := cmp.Compare(a.rank(), b.rank()); c != 0 {
			return c
		}
		return cmp.Compare(m.expect(a, m.work(least)), m.expect(b, m.work(least)))
	})
	return list, nil
}

// rank orders trials: those that are asked for come first, and of these those with cores of their
// own, which show more.
func (t trial) rank() int {
	switch {
	case !t.Asked:
		return 2
	case t.shared():
		return 1
	}
	return 0
}

// expect predicts the step on this machine, as if it had the rates of psim's own.
func (t *trial) expect(c course) error {
	plan, err := t.config.Build()
	if err != nil {
		return err
	}
	if t.each = 1; c.Epochs {
		t.each = int((plan.DataSet + plan.Samples - 1) / plan.Samples)
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
func (r *ReproducedRun) shared() bool { return r.Predicted.Devices > runtime.NumCPU() }

// sharing says how many workers share the cores.
func (r *ReproducedRun) sharing() string {
	return fmt.Sprintf("oversubscribed: %d workers share %s",
		r.Predicted.Devices, units.Plural(runtime.NumCPU(), "core"))
}

// shrink makes the configuration of a run at a size.
func (r assignedRun) shrink(s size) (*configs.Config, error) {
	c, err := r.load()
	if err != nil {
		return nil, err
	}
	sets := slices.Clone(s.Sets)
	if preset := s.Presets[c.Model.Preset]; preset != "" {
		sets = append(sets, "model.preset="+preset)
	}
	if s.Divisor > 1 {
		data, floor := int64(max(1, c.Parallel.Data)), int64(1)
		if c.Schedule.Name != "ddp" { // samples for each microbatch, and as many for model parallelism
			floor = int64(max(4, c.Schedule.Microbatches)) * s.microbatch()
		}
		sets = append(sets, fmt.Sprint("batch.global=", max(batch(c)/s.Divisor, floor)*data))
		if c.Data.Samples > 0 {
			sets = append(sets, fmt.Sprint("data.samples=", s.samples()))
		}
	}
	return c.With(sets...)
}

// shrinks lists how a trial of a size is smaller than the assignment's own. Texts of a size that
// replaces presets are of the runs that have one of these.
func (s size) shrinks(t trial) (list []string) {
	own, err := t.assigned.load()
	if err == nil && (s.Presets == nil || s.Presets[own.Model.Preset] != "") {
		list = slices.Clone(s.Text)
	}
	if s.Divisor > 1 && t.config.Data.Samples > 0 {
		list = append(list, fmt.Sprintf("epochs of %s samples instead of 5,000", units.FormatCount(s.samples())))
	}
	all := math.Round(t.Predicted.Throughput.Samples * t.Predicted.StepTime)
	if now, was := batch(t.config), int64(all)/int64(t.Predicted.DataParallel); now < was {
		list = append(list, fmt.Sprintf("batches of %d instead of %d samples", now, was))
	}
	return list
}

// samples returns the samples of a shrunk epoch: four steps of one replica with 64 samples,
// divided as batches are, and at least what a pipeline of eight microbatches takes; or several
// times as many.
func (s size) samples() int64 { return max(1, s.times) * max(8*s.microbatch(), 4*64/s.Divisor) }

// microbatch returns the samples that a microbatch has at least.
func (s size) microbatch() int64 { return max(1, s.Microbatch) }

// longest returns how many times longer an epoch may be that is at most as long as the
// assignment's own.
func (s size) longest() int64 {
	if s.Divisor <= 1 {
		return 1
	}
	s.times = 1
	return 5000 / s.samples()
}

// batch returns the samples of a replica in a step.
func batch(c *configs.Config) int64 { return c.Batch.Global / int64(max(1, c.Parallel.Data)) }
