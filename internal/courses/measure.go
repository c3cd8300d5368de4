package courses

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"psim"
	"psim/configs"
	"psim/exec/session"
	"psim/internal/units"
)

// A measuring is under way.
type measuring struct {
	*Reproduction
	Options
	size size
	from time.Time
	// took and expected are the time of the runs that were measured, and what was
	// expected of it: so the time of the others is corrected.
	took, expected time.Duration
}

// A trial is a run that is to be measured.
type trial struct {
	*Run
	config *configs.Config
	pass   time.Duration // expected of a step, on this machine's cores
	serial time.Duration // of a step whose tasks run one by one
}

// errBudget ends what takes longer than there is time.
var errBudget = errors.New("the budget was spent")

// leastSteps is the number of steps that is measured where time is short.
const leastSteps = 2

// measure runs what the assignment asks for, and then the rest as far as time suffices.
func (r *Reproduction) measure(ctx context.Context, o Options) error {
	m := &measuring{Reproduction: r, Options: o, from: time.Now()}
	if o.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Budget, errBudget)
		defer cancel()
	}
	trials, err := m.choose()
	if err != nil {
		return err
	}
	r.Shrunk = m.shrunk()
	for i, t := range trials {
		if err := m.run(ctx, t, trials[i:]); err != nil {
			return err
		}
	}
	for _, run := range r.Runs {
		if run.measured != nil {
			return nil
		}
	}
	return fmt.Errorf("nothing was measured: %s", r.Runs[0].LeftOut)
}

// choose takes the largest size in which all that is asked for is expected to end
// within the budget, with time to spare; without a budget the assignment's own.
func (m *measuring) choose() (trials []trial, err error) {
	const share = 0.6 // of the budget, because expectations may be wrong by as much
	sizes := m.course.sizes
	if m.Full {
		sizes = sizes[:1]
	}
	for i, s := range sizes {
		m.size = s
		if trials, err = m.trials(s); err != nil {
			return nil, err
		}
		var all time.Duration
		for _, t := range trials {
			if t.Asked {
				all += m.expect(t, leastSteps+1)
			}
		}
		if m.Budget == 0 || i == len(sizes)-1 || float64(all) <= share*float64(m.Budget) {
			return trials, nil
		}
	}
	return trials, nil
}

// trials prepares all runs at a size, those that are asked for first.
func (m *measuring) trials(s size) (list []trial, err error) {
	for _, asked := range []bool{true, false} {
		for _, e := range m.course.only(asked) {
			t := trial{Run: m.find(e.name)}
			c, err := e.shrink(s)
			if err == nil {
				t.config, _, err = c.Executable(0)
			}
			if err == nil {
				err = t.expect()
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			list = append(list, t)
		}
	}
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

// expect returns how long a trial of so many steps will take.
func (m *measuring) expect(t trial, steps int) time.Duration {
	const start = time.Second // to open devices and to compile
	d := start + time.Duration(m.Repeats+1)*t.serial + time.Duration(m.Warmup+steps)*t.pass
	if m.expected > 0 {
		d = time.Duration(float64(d) * float64(m.took) / float64(m.expected))
	}
	return d
}

// run measures a trial, before others, or leaves it out. An error is an interrupt.
func (m *measuring) run(ctx context.Context, t trial, rest []trial) error {
	steps, reason := m.steps(t, rest)
	if reason == "" {
		reason = m.once(ctx, t, steps, rest)
	}
	if t.measured == nil {
		t.LeftOut = reason
	}
	if err := ctx.Err(); err != nil && context.Cause(ctx) != errBudget {
		for _, other := range rest {
			if other.measured == nil {
				other.LeftOut = cmp.Or(other.LeftOut, "interrupted")
			}
		}
		return err
	}
	return nil
}

// steps returns how many steps of a trial there is time for, or why there is none.
func (m *measuring) steps(t trial, rest []trial) (steps int, reason string) {
	if m.Budget == 0 {
		return m.Steps, ""
	}
	left := m.Budget - time.Since(m.from)
	if need := m.expect(t, 1); need > left {
		return 0, fmt.Sprintf("needs about %s, and %s of the budget of %s are left", round(need), round(max(0, left)), m.Budget)
	}
	if !t.Asked {
		return leastSteps, ""
	}
	for steps = m.Steps; steps > leastSteps; steps-- {
		var all time.Duration
		for _, other := range rest {
			if other.Asked {
				all += m.expect(other, steps)
			}
		}
		if all <= left {
			break
		}
	}
	return steps, ""
}

// once measures a trial, and returns why there is nothing of it.
func (m *measuring) once(ctx context.Context, t trial, steps int, rest []trial) (reason string) {
	s := &session.Session{Options: m.Options.Options}
	s.Steps, s.Devices.Oversubscribe = steps, true
	var left time.Duration
	for _, other := range rest {
		if other.Asked {
			left += m.expect(other, steps)
		}
	}
	if stage := m.Stage; stage != nil {
		s.Stage = func(what string) {
			stage(fmt.Sprintf("%s: %s, about %s left", t.Name, what[strings.Index(what, ": ")+2:], round(max(left-time.Since(m.from), 0))))
		}
	}
	expected, begin := m.expect(t, steps), time.Now()
	if m.expected > 0 {
		expected = time.Duration(float64(expected) * float64(m.expected) / float64(m.took))
	}
	err := s.Run(ctx, t.config)
	if len(s.Runs) > 0 {
		t.measured = s.Main()
		result := s.Main().Result
		result.Warnings = append(result.Warnings, m.remarks(t, len(result.Steps))...)
		t.measured.Result, t.Measured = result, &result
	}
	if err == nil {
		m.took, m.expected = m.took+time.Since(begin), m.expected+expected
		return ""
	}
	if context.Cause(ctx) == errBudget {
		return fmt.Sprintf("did not end within the budget of %s", m.Budget)
	}
	return err.Error()
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// shrink makes the configuration of a run at a size.
func (e experiment) shrink(s size) (*configs.Config, error) {
	c, err := e.load()
	if err != nil {
		return nil, err
	}
	sets := append([]string{}, s.sets...)
	if preset := s.presets[c.Model.Preset]; preset != "" {
		sets = append(sets, "model.preset="+preset)
	}
	if s.divisor > 1 {
		data, m := int64(max(1, c.Parallel.Data)), int64(max(1, c.Schedule.Microbatches))
		sets = append(sets, fmt.Sprint("batch.global=", max(c.Batch.Global/data/s.divisor, m)*data))
	}
	return c.With(sets...)
}

// shrunk says in what a size is smaller than the assignment's own.
func (m *measuring) shrunk() []string {
	list := append([]string{}, m.size.text...)
	if m.size.divisor > 1 {
		list = append(list, fmt.Sprintf("batches of 1/%d", m.size.divisor))
	}
	return list
}

// remarks says what of a measured run is not as the assignment has it.
func (m *measuring) remarks(t trial, steps int) (list []string) {
	for _, s := range m.shrunk() {
		list = append(list, "shrunk: "+s)
	}
	if steps < m.course.steps {
		list = append(list, fmt.Sprintf("shrunk: %s instead of %d", units.Plural(steps, "step"), m.course.steps))
	}
	if t.shared() {
		list = append(list, fmt.Sprintf("oversubscribed: %d workers share %s", t.Predicted.Devices, units.Plural(runtime.NumCPU(), "core")))
	}
	return list
}
