package site

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"psim/internal/solve"
	"psim/internal/units"
)

// Keys are the constants of a site, in the order in which they are fitted: one for two runs. A site's file system
// has no key, since nothing of a step waits for it.
var Keys = []string{"machine.network.speedup", "machine.clock", "machine.spread"}

// A Predictor predicts the step of a run in seconds, with every constant times the exponential of a number.
type Predictor func(run int, logs []float64) (float64, error)

// Prior says how far steps differ: the variance among sites, and that among runs of a site. A constant is drawn
// towards the catalog's as if sites had constants of the first, since none has been measured apart.
type Prior struct{ Between, Within float64 }

// A SiteFit is what runs say of a site.
type SiteFit struct {
	Runs      []FittedRun    `json:"runs"`
	Constants []SiteConstant `json:"constants"`
	// Device and Stack are what all runs have; "" if they differ.
	Device string `json:"device"`
	Stack  string `json:"stack"`
	// Errors are means of absolute relative errors: with the catalog's constants, with the site's, and of runs
	// that were left out of the fit, which is nil for fewer than three runs.
	Before  float64  `json:"mean_error_before"`
	After   float64  `json:"mean_error_after"`
	LeftOut *float64 `json:"left_out_mean_error,omitempty"`
}

// A FittedRun is a run with its predictions.
type FittedRun struct {
	RunOfSite
	Before  float64 `json:"before_s"`             // with the catalog's constants
	After   float64 `json:"after_s"`              // with the site's
	LeftOut float64 `json:"left_out_s,omitempty"` // with constants that have not seen the run
}

// A SiteConstant is a fitted constant of a site: a factor on the catalog's.
type SiteConstant struct {
	Key    string  `json:"key"`
	Factor float64 `json:"factor"`
}

// leastEffect is the change of the logarithm of a step, for one of a constant, below which runs say next to nothing
// of it: twice the constant would change a step by 3 %.
const leastEffect = 0.05

// New fits the constants of a site to its runs.
func New(runs []RunOfSite, predict Predictor, prior Prior) (*SiteFit, error) {
	f := fitter{runs: runs, prior: prior, predict: func(run int, logs []float64) (float64, error) {
		step, err := predict(run, logs)
		if err != nil {
			err = fmt.Errorf("line %d: %w", runs[run].Line, err)
		}
		return step, err
	}}
	all := make([]int, len(runs))
	for i := range all {
		all[i] = i
	}
	catalogs, err := f.plausible()
	if err != nil {
		return nil, err
	}
	logs, keys, err := f.fit(all)
	if err != nil {
		return nil, err
	}
	fit := &SiteFit{}
	for _, k := range keys {
		fit.Constants = append(fit.Constants, SiteConstant{Keys[k], math.Exp(logs[k])})
	}
	for i, run := range runs {
		one := FittedRun{RunOfSite: run}
		one.Before = catalogs[i]
		if one.After, err = f.predict(i, logs); err != nil {
			return nil, err
		}
		if len(runs) > 2 {
			others := slices.DeleteFunc(slices.Clone(all), func(k int) bool { return k == i })
			left, _, err := f.fit(others)
			if err != nil {
				return nil, err
			}
			if one.LeftOut, err = f.predict(i, left); err != nil {
				return nil, err
			}
		}
		fit.Runs = append(fit.Runs, one)
	}
	fit.sum()
	return fit, nil
}

// A step outside these multiples of what the catalog's constants predict is another configuration's, or is not one
// step: no cluster is twice as fast as the same devices elsewhere, or ten times as slow.
const (
	shortestStep = 0.5
	longestStep  = 10
)

// plausible predicts the runs with the catalog's constants, and refuses those that cannot be.
func (f *fitter) plausible() (list []float64, err error) {
	for i, run := range f.runs {
		predicted, err := f.predict(i, make([]float64, len(Keys)))
		if err != nil {
			return nil, err
		}
		if times := run.Step / predicted; times < shortestStep || times > longestStep {
			return nil, fmt.Errorf("line %d: step_time is %s, and %s is predicted: is it one step of this "+
				"configuration, on its devices?",
				run.Line, units.FormatSeconds(run.Step), units.FormatSeconds(predicted))
		}
		list = append(list, predicted)
	}
	return list, nil
}

// sum averages the errors.
func (f *SiteFit) sum() {
	mean := func(predicted func(FittedRun) float64) float64 {
		var list []float64
		for _, r := range f.Runs {
			list = append(list, math.Abs(predicted(r)/r.Step-1))
		}
		return units.Mean(list)
	}
	f.Before = mean(func(r FittedRun) float64 { return r.Before })
	f.After = mean(func(r FittedRun) float64 { return r.After })
	if len(f.Runs) > 2 {
		left := mean(func(r FittedRun) float64 { return r.LeftOut })
		f.LeftOut = &left
	}
}

// A fitter fits constants to some of the runs.
type fitter struct {
	runs    []RunOfSite
	predict Predictor
	prior   Prior
}

// fit returns the logarithms of the factors of all constants, and the indices of those that were fitted. It takes the
// first constants that the runs say something of, one for two runs of different settings, and finds their most
// likely values by Gauss and Newton's method.
func (f *fitter) fit(of []int) (logs []float64, keys []int, err error) {
	logs = make([]float64, len(Keys))
	distinct := 0
	for i, run := range of {
		if !slices.ContainsFunc(of[:i], func(k int) bool { return f.runs[k].same(f.runs[run]) }) {
			distinct++
		}
	}
	for k := range Keys {
		if len(keys) == max(1, distinct/2) {
			break
		}
		slope, err := f.slope(of, logs, k)
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(slope, func(s float64) bool { return math.Abs(s) > leastEffect }) {
			keys = append(keys, k)
		}
	}
	if keys == nil {
		return logs, nil, fmt.Errorf("no run depends much on %s, %s or %s, so that they say nothing of the site",
			Keys[0], Keys[1], Keys[2])
	}
	const steps = 4 // errors fall with the square of those before
	for range steps {
		if err := f.step(of, logs, keys); err != nil {
			return nil, nil, err
		}
	}
	return logs, keys, nil
}

// step improves the logarithms by one step.
func (f *fitter) step(of []int, logs []float64, keys []int) error {
	slopes := make([][]float64, len(keys))
	for i, k := range keys {
		var err error
		if slopes[i], err = f.slope(of, logs, k); err != nil {
			return err
		}
	}
	n := len(keys)
	left, right := make([][]float64, n), make([]float64, n)
	for i := range keys {
		// Of the prior: the most likely value is where likelihood and prior balance.
		left[i] = make([]float64, n)
		left[i][i], right[i] = 1/f.prior.Between, -logs[keys[i]]/f.prior.Between
	}
	for r, run := range of {
		predicted, err := f.predict(run, logs)
		if err != nil {
			return err
		}
		off := math.Log(f.runs[run].Step / predicted)
		for i := range keys {
			right[i] += slopes[i][r] * off / f.prior.Within
			for k := range keys {
				left[i][k] += slopes[i][r] * slopes[k][r] / f.prior.Within
			}
		}
	}
	change, ok := solve.LeastSquares(left, right)
	if !ok {
		return errors.New("the slopes of the runs are not finite")
	}
	for i, k := range keys {
		logs[k] += max(-0.5, min(0.5, change[i]))
	}
	return nil
}

// slope returns by how much the logarithm of each run's step changes with that of a constant.
func (f *fitter) slope(of []int, logs []float64, key int) (list []float64, err error) {
	const by = 0.02
	low, high := slices.Clone(logs), slices.Clone(logs)
	low[key], high[key] = low[key]-by, high[key]+by
	for _, run := range of {
		a, err := f.predict(run, low)
		if err != nil {
			return nil, err
		}
		b, err := f.predict(run, high)
		if err != nil {
			return nil, err
		}
		list = append(list, math.Log(b/a)/(2*by))
	}
	return list, nil
}
