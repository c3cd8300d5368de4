package courses

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// choose finds the largest size in which everything that is asked for should end within the
// budget, and returns its trials. A size that may fit is tried by a few steps of a run, because
// psim's own rates are those of another machine.
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
		if m.Budget == 0 {
			m.note(s, trials)
			return trials, nil
		}
		if !last && !m.fits(trials) {
			continue
		}
		ended, err := m.try(ctx, busiest(trials))
		if err != nil {
			return nil, err
		}
		if last || ended && m.fits(trials) {
			return m.grow(s, trials)
		}
	}
	return nil, nil
}

// busiest returns the trial of most workers that have a core each: they slow each other down as
// those of the others do.
func busiest(trials []trial) trial {
	best := trials[0]
	for _, t := range trials {
		if t.Asked && !t.shared() && t.Predicted.Devices > best.Predicted.Devices {
			best = t
		}
	}
	return best
}

// probe tries a small size, to find how fast the machine is, and returns the sizes that are
// possible: only the smallest if that did not end soon.
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
	ended, err := m.try(ctx, busiest(trials))
	if !ended {
		sizes = sizes[len(sizes)-1:]
	}
	return sizes, err
}

// triedSteps is how many steps of a run show how long its steps take.
const triedSteps = 2

// try measures a few steps of a trial, and forgets all but how long they took. It reports
// whether they ended within a quarter of the budget. An error is an interrupt.
func (m *measuring) try(ctx context.Context, t trial) (ended bool, err error) {
	soon, cancel := context.WithTimeoutCause(ctx, m.Budget/4, errBudget)
	defer cancel()
	m.took, m.expected, m.overhead = 0, 0, 0
	err = m.once(soon, t, work{steps: triedSteps}, 0)
	t.measured, t.Measured, t.LeftOut = nil, nil, ""
	if ctx.Err() != nil && context.Cause(ctx) != errBudget {
		return false, err
	}
	return err == nil, nil
}

// grow gives the trials of a size as much work as the budget has time for: more epochs, up to
// the assignment's number, and longer ones, as long for every run.
func (m *measuring) grow(s size, trials []trial) ([]trial, error) {
	longest := int64(1)
	if m.course.Epochs {
		longest = s.longest()
	}
	m.count, s.times = m.most(trials, longest)
	trials, err := m.trials(s)
	if err == nil {
		m.note(s, trials)
	}
	return trials, err
}

// most returns how many epochs or steps, and how many times longer epochs, take nearly the most of
// the time that may be planned: as many as the assignment has, if possible.
func (m *measuring) most(trials []trial, longest int64) (count int, times int64) {
	spare := m.spare()
	most := m.course.Count - least + 1
	longer, planned := make([]int64, most), make([]time.Duration, most)
	for i := range most {
		for k := int64(1); k <= longest; k++ {
			d := m.asked(lengthened(trials, int(k)), least+i)
			if d > spare {
				break
			}
			longer[i], planned[i] = k, d
		}
	}
	count, times = least, 1
	for i, d := range planned {
		if d > 0 && d >= slices.Max(planned)*19/20 {
			count, times = least+i, longer[i]
		}
	}
	return count, times
}

// lengthened makes the epochs of trials several times as long.
func lengthened(trials []trial, times int) []trial {
	list := slices.Clone(trials)
	for i := range list {
		list[i].each *= times
	}
	return list
}

// note says how trials are smaller than the assignment's own.
func (m *measuring) note(s size, trials []trial) {
	m.Shrunk = nil
	for _, t := range trials {
		t.Shrunk = s.shrinks(t)
		for _, text := range t.Shrunk {
			if t.Asked && !slices.Contains(m.Shrunk, text) {
				m.Shrunk = append(m.Shrunk, text)
			}
		}
	}
}

// again measures runs that are asked for and have cores of their own again, as long as a fifth of
// the budget is left, such as when the machine was busier at first. Of two measurements the later
// counts, unless only it was disturbed.
func (m *measuring) again(ctx context.Context, trials []trial) error {
	var list []trial
	for _, t := range trials {
		if t.rank() == 0 && t.measured != nil && m.course.Epochs {
			list = append(list, t)
		}
	}
	for len(list) > 0 && m.left() > m.Budget/5 {
		m.count = m.course.Count
		for m.count >= least && m.asked(list, m.count) > m.left()*19/20 {
			m.count--
		}
		if m.count < least {
			return nil
		}
		for i, t := range list {
			before := *t.ReproducedRun
			err := m.run(ctx, list[i:])
			if t.measured == before.measured || t.LeftOut != "" || t.Measured.Partial ||
				t.Measured.Disturbed && !before.Measured.Disturbed {
				*t.ReproducedRun = before
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// A work is how much of a trial is measured: epochs, or steps if there are none.
type work struct{ steps, epochs int }

// work returns the work of a number of steps or epochs, whichever the course counts.
func (m *measuring) work(count int) work {
	if m.course.Epochs {
		return work{epochs: count}
	}
	return work{steps: count}
}

// fits reports whether the least that is asked for should end in time, with some to spare.
func (m *measuring) fits(trials []trial) bool {
	return m.Budget == 0 || m.asked(trials, least) <= m.spare()
}

// spare returns how much of the rest of the budget may be planned for what is asked. It is less
// than the rest, because workers slow each other down; further runs use what is left.
func (m *measuring) spare() time.Duration { return m.left() * 17 / 20 }

// left returns the rest of the budget.
func (m *measuring) left() time.Duration { return max(0, m.Budget-time.Since(m.from)) }

// asked returns how long the trials that are asked for should take.
func (m *measuring) asked(trials []trial, count int) (sum time.Duration) {
	for _, t := range trials {
		if t.Asked && t.assigned.Same == "" {
			sum += m.expect(t, m.work(count))
		}
	}
	return sum
}

// expect returns how long a trial should take: devices are opened and programs compiled, tasks
// are measured alone, and then the steps.
func (m *measuring) expect(t trial, w work) time.Duration {
	return cmp.Or(m.overhead, time.Second) + m.corrected(m.passes(t, w))
}

// corrected scales an expectation by how far those of the size were off.
func (m *measuring) corrected(d time.Duration) time.Duration {
	if m.expected == 0 {
		return d
	}
	return time.Duration(float64(d) * float64(m.took) / float64(m.expected))
}

// passes returns the time of a trial's tasks by the rates of psim's own machine.
func (m *measuring) passes(t trial, w work) time.Duration {
	warmup := m.Options.Options.Measure.Train.Warmup
	steps := warmup + w.steps
	if w.epochs > 0 {
		steps = (warmup + w.epochs) * t.each
	}
	alone := m.Options.Options.Measure.Repeats + 1
	return time.Duration(alone)*t.serial + time.Duration(steps)*t.pass
}

// learn notes how long a trial took, and how long the steps in it.
func (m *measuring) learn(t trial, w work, took time.Duration) {
	m.took += time.Duration(t.Measured.StepTime * float64(len(t.Measured.Steps)) * float64(time.Second))
	m.expected += time.Duration(len(t.Measured.Steps)) * t.pass
	m.overhead = max(time.Millisecond, took-m.corrected(m.passes(t, w)))
}

// spent says how much of the budget measuring took.
func (r *Reproduction) spent() string {
	if r.MeasuredWithin == 0 {
		return ""
	}
	return fmt.Sprintf(" in %.0f s, %.0f %% of the budget", r.MeasuredFor, 100*r.MeasuredFor/r.MeasuredWithin)
}
