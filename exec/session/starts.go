package session

import (
	"context"
	"fmt"
	"strings"

	"psim/configs"
	"psim/exec/measure"
	"psim/results"
)

// restart starts a configuration again, the devices in another order each time, and adds the
// checks of every start to those of the first one. Several processes all call it; r is nil at
// those that keep nothing. A check that fails does not end it.
func (s *Session) restart(ctx context.Context, c *configs.Config, r *Trial) error {
	again := &Trial{Config: c}
	if err := again.prepare(s.Options); err != nil {
		return err
	}
	o := s.Measure
	o.Data.Samples, o.Repeats = int(again.Experiment.DataSet), 0
	r.countStart(1, s.Starts, nil, nil)
	for n := 2; n <= s.Starts; n++ {
		o.Train.Run.StartSeed = uint64(n)
		if s.Measure.Stage != nil {
			begin := fmt.Sprintf("%s: start %d of %d: ", again.Experiment.Graph.Name, n, s.Starts)
			o.Stage = func(what string) { s.Measure.Stage(begin + what) }
		}
		m, err := measure.Job(ctx, again.job(s.Options), o)
		if err != nil {
			return fmt.Errorf("start %d of %d: %w", n, s.Starts, err)
		}
		if m != nil {
			r.countStart(n, s.Starts, m.Verdict, checks(m, s.Measure.Checks))
		}
	}
	return nil
}

// countStart adds the checks of the n-th start to those of the trial. The first start's are
// there already.
func (r *Trial) countStart(n, of int, v *measure.Verdict, c *results.Checks) {
	if r == nil || r.Verdict == nil {
		return
	}
	all := *r.Result.Checks
	if n == 1 {
		all.Starts, v, c = &results.CheckedStarts{}, r.Verdict, r.Result.Checks
	} else {
		all = all.Worst(*c)
	}
	starts := *all.Starts
	starts.Count++
	if c.Passed {
		starts.Passed++
	}
	all.Starts, r.Result.Checks = &starts, &all
	first := r.failed
	if first == "" && !c.Passed {
		first = fmt.Sprintf("start %d of %d: %s", n, of, strings.Join(v.Failures, "; "))
	}
	if r.failed = first; first != "" {
		failed := starts.Count - starts.Passed
		r.Verdict.Failures = []string{fmt.Sprintf("in %d of %d starts, first in %s", failed, starts.Count, first)}
	}
}
