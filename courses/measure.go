package courses

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"psim/exec/session"
	"psim/internal/units"
	"psim/results"
)

// A measuring is a reproduction while its runs are measured.
type measuring struct {
	*Reproduction
	Options
	from  time.Time
	count int // of steps or epochs that are measured if there is time
	// took is the time of the steps that were measured in this size, and expected the time that
	// psim expects of them on its own machine. Their ratio corrects the expectations of others.
	took, expected time.Duration
	overhead       time.Duration // of the last run, besides its tasks
}

// errBudget is the cause of contexts that end because the budget was spent.
var errBudget = errors.New("the budget was spent")

// least bounds how many steps or epochs are measured if time is short.
const least = 2

// measure runs what the assignment asks for, and then the rest as long as there is time.
func (r *Reproduction) measure(ctx context.Context, o Options) error {
	m := &measuring{Reproduction: r, Options: o, from: time.Now()}
	m.count = r.course.Count
	defer func() { r.MeasuredWithin, r.MeasuredFor = o.Budget.Seconds(), time.Since(m.from).Seconds() }()
	if o.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Budget, errBudget)
		defer cancel()
	}
	trials, err := m.choose(ctx)
	for i := 0; err == nil && i < len(trials); i++ {
		err = m.run(ctx, trials[i:])
	}
	if err == nil {
		err = m.again(ctx, trials)
	}
	for _, run := range r.Runs {
		if err != nil && run.measured == nil {
			run.LeftOut = "was interrupted"
		}
	}
	if r.nothingMeasured() {
		err = cmp.Or(err, fmt.Errorf("nothing was measured: %s: %s", r.Runs[0].Name, r.Runs[0].LeftOut))
	}
	return err
}

// run measures the first of some trials, or notes why not. An error is an interrupt.
func (m *measuring) run(ctx context.Context, trials []trial) error {
	t := trials[0]
	if t.assigned.Same != "" {
		t.LeftOut = "is " + t.assigned.Same + " on this machine"
		return nil
	}
	count := m.count
	all := func() time.Duration { // that is to be in time
		if t.Asked {
			return m.asked(trials, count)
		}
		return m.expect(t, m.work(count))
	}
	for count > least && m.Budget > 0 && all() > m.left()*19/20 {
		count--
	}
	if need := m.expect(t, m.work(1)); m.Budget > 0 && need > m.left() {
		t.LeftOut = fmt.Sprintf("takes about %s, and of the budget of %s there were %s left",
			round(need), short(m.Budget), m.left().Truncate(100*time.Millisecond))
	} else if err := m.once(ctx, t, m.work(count), m.asked(trials, count)); err != nil && t.measured == nil {
		t.LeftOut = err.Error()
		if context.Cause(ctx) == errBudget {
			t.LeftOut = "did not end within the budget of " + short(m.Budget)
		}
	}
	if err := ctx.Err(); err != nil && context.Cause(ctx) != errBudget {
		return err
	}
	return nil
}

// once measures a trial. While it runs, it says how long all trials that are asked for will
// take.
func (m *measuring) once(ctx context.Context, t trial, w work, all time.Duration) error {
	s := &session.Session{Options: m.Options.Options}
	s.Measure.Train.Steps, s.Measure.Train.Epochs = max(1, w.steps), w.epochs
	s.Measure.Devices.Oversubscribe = true
	begin := time.Now()
	if tell := m.Options.Options.Measure.Stage; tell != nil {
		s.Measure.Stage = func(what string) {
			_, what, _ = strings.Cut(what, ": ") // without the schedule
			left := max(all, m.expect(t, w)) - time.Since(begin)
			tell(fmt.Sprintf("%s: %s%s", t.Name, what, m.remaining(left)))
		}
	}
	err := s.Run(ctx, t.config)
	if run := s.Main(); run != nil {
		run.Result.Disturbed = run.Result.Disturbed || t.shared()
		run.Result.Warnings = append(run.Result.Warnings, m.remarks(t, run.Result)...)
		t.measured, t.Measured = run, &run.Result
	}
	if err == nil {
		m.learn(t, w, time.Since(begin))
	}
	return err
}

// remaining says how much time is left, given the time that is expected.
func (m *measuring) remaining(expected time.Duration) string {
	switch {
	case expected > 0:
		return fmt.Sprintf(", about %s left", round(expected))
	case m.Budget > 0:
		return fmt.Sprintf(", longer than expected, at most %s left", round(m.left()))
	}
	return ", longer than expected"
}

// remarks lists how a measured run differs from the assignment.
func (m *measuring) remarks(t trial, r results.Result) (list []string) {
	for _, s := range t.Shrunk {
		list = append(list, "shrunk: "+s)
	}
	if n := m.course.counted(r); n < m.course.Count {
		list = append(list, fmt.Sprintf("shrunk: %s instead of %d", units.Plural(n, m.course.unit()), m.course.Count))
	}
	if t.shared() {
		list = append(list, t.sharing())
	}
	return list
}

// round shortens a duration for people.
func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// short writes a budget as it was given: 7m, not 7m0s.
func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
