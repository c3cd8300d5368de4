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
	// took is the time of the runs that were measured, and expected the time that they were
	// expected to take. Their ratio corrects the expectations of the others.
	took, expected time.Duration
}

// errBudget is the cause of contexts that end because the budget was spent.
var errBudget = errors.New("the budget was spent")

// least bounds how many steps or epochs are measured if time is short.
const least = 2

// measure runs what the assignment asks for, and then the rest as long as there is time.
func (r *Reproduction) measure(ctx context.Context, o Options) error {
	m := &measuring{Reproduction: r, Options: o, from: time.Now()}
	m.count = r.course.Count
	if o.Budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Budget, errBudget)
		defer cancel()
	}
	trials, err := m.choose(ctx)
	for err == nil && len(trials) > 0 {
		err = m.run(ctx, trials)
		trials = trials[1:]
	}
	for _, run := range r.Runs {
		if err != nil && run.measured == nil {
			run.LeftOut = "interrupted"
		}
	}
	if r.nothingMeasured() {
		err = cmp.Or(err, fmt.Errorf("nothing was measured: %s: %s", r.Runs[0].Name, r.Runs[0].LeftOut))
	}
	return err
}

// choose measures the first run in the largest size in which everything that is asked for
// should end within the budget, and returns the other runs. If the first run shows early
// that it will not, choose goes on to a smaller size.
func (m *measuring) choose(ctx context.Context) (trials []trial, err error) {
	sizes, err := m.probe(ctx)
	if err != nil {
		return nil, err
	}
	for i, s := range sizes {
		last := i == len(sizes)-1
		if trials, err = m.trials(s); err != nil {
			return nil, err
		}
		m.Shrunk = s.shrinks(trials)
		if !m.fits(trials) && !last {
			continue
		}
		if err := m.run(ctx, trials); err != nil {
			return nil, err
		}
		first := trials[0].ReproducedRun
		if trials = trials[1:]; last || first.measured != nil && (m.fits(trials) || m.left() < m.Budget/2) {
			break
		}
		first.forget()
	}
	return trials, nil
}

// probe measures the first run in a small size, to find how fast the machine is, and returns
// the sizes that are possible: only the smallest if that did not end soon.
func (m *measuring) probe(ctx context.Context) ([]size, error) {
	sizes := m.course.Sizes
	if m.Full {
		sizes = sizes[:1]
	}
	if m.Budget == 0 || len(sizes) < 3 {
		return sizes, nil
	}
	trials, err := m.trials(sizes[len(sizes)-2])
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeoutCause(ctx, m.Budget/4, errBudget)
	defer cancel()
	err = m.run(soon, trials)
	if trials[0].measured == nil {
		sizes = sizes[len(sizes)-1:]
	}
	trials[0].forget()
	return sizes, err
}

// forget drops what was measured of a run, which will be measured again.
func (r *ReproducedRun) forget() { r.measured, r.Measured, r.LeftOut = nil, nil, "" }

// fits reports whether everything that is asked for should end in time, with some to spare.
func (m *measuring) fits(trials []trial) bool {
	return m.Budget == 0 || m.asked(trials, least) <= m.spare()
}

// spare returns how much of the rest of the budget may be planned. It is less than the rest,
// because other runs may take longer than the first suggests.
func (m *measuring) spare() time.Duration { return m.left() * 4 / 5 }

// left returns the rest of the budget.
func (m *measuring) left() time.Duration { return max(0, m.Budget-time.Since(m.from)) }

// asked returns how long the trials that are asked for should take.
func (m *measuring) asked(trials []trial, count int) (sum time.Duration) {
	for _, t := range trials {
		if t.Asked {
			sum += m.corrected(m.expect(t, count))
		}
	}
	return sum
}

// expect returns how long a trial of a number of steps or epochs would take on the machine
// whose rates psim knows.
func (m *measuring) expect(t trial, count int) time.Duration {
	const start = time.Second // to open devices and to compile
	o := m.Options.Options.Measure
	serial := time.Duration(o.Repeats+1) * t.serial
	return start + serial + time.Duration((o.Train.Warmup+count)*t.each)*t.pass
}

// corrected scales an expectation by how far earlier ones were off.
func (m *measuring) corrected(d time.Duration) time.Duration {
	if m.expected == 0 {
		return d
	}
	return time.Duration(float64(d) * float64(m.took) / float64(m.expected))
}

// run measures the first of some trials, or notes why not. An error is an interrupt.
func (m *measuring) run(ctx context.Context, trials []trial) error {
	t := trials[0]
	count := m.count
	for count > least && m.Budget > 0 && (m.expected == 0 || !t.Asked || m.asked(trials, count) > m.spare()) {
		count--
	}
	if need := m.corrected(m.expect(t, 1)); m.Budget > 0 && need > m.left() {
		t.LeftOut = fmt.Sprintf("takes about %s, and of the budget of %s there were %s left",
			round(need), short(m.Budget), m.left().Truncate(100*time.Millisecond))
	} else if err := m.once(ctx, t, count, m.asked(trials, count)); err != nil && t.measured == nil {
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
func (m *measuring) once(ctx context.Context, t trial, count int, all time.Duration) error {
	s := &session.Session{Options: m.Options.Options}
	if s.Measure.Train.Steps, s.Measure.Devices.Oversubscribe = count, true; m.course.Epochs {
		s.Measure.Train.Epochs = count
	}
	begin := time.Now()
	if tell := m.Options.Options.Measure.Stage; tell != nil {
		s.Measure.Stage = func(what string) {
			_, what, _ = strings.Cut(what, ": ") // without the schedule
			left := max(all, m.corrected(m.expect(t, count))) - time.Since(begin)
			tell(fmt.Sprintf("%s: %s%s", t.Name, what, m.remaining(left)))
		}
	}
	err := s.Run(ctx, t.config)
	if run := s.Main(); run != nil {
		run.Result.Warnings = append(run.Result.Warnings, m.remarks(t, run.Result)...)
		t.measured, t.Measured = run, &run.Result
	}
	if err == nil {
		m.took, m.expected = m.took+time.Since(begin), m.expected+m.expect(t, count)
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
	for _, s := range m.Shrunk {
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
