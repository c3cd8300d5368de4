// Package intervals says how far off a predicted step time may be, from how far off predictions of published
// training runs were.
//
// An error is the logarithm of the measured over the predicted time of a step, predicted with constants that
// have not seen any run of the error's source (residuals.csv, which make leave-out writes). Products and attention have
// measured rates; what the rest of a step takes (kernels between products, launches, exchanges that nothing hides,
// waiting) is known less well. So the mean and the scale of errors go in a straight line from a step that is all
// products to one without any: means by weighted least squares, scales by those of absolute errors (Glejser 1969,
// "A new test for heteroskedasticity", JASA 64). Each source has one vote.
//
// How wide the interval is in scales follows from the errors of each source, in scales of a line that the other
// sources have drawn: the half width holds the nominal share of them and of one further source (conformal prediction
// for groups: Dunn, Wasserman and Ramdas 2023, "Distribution-free prediction sets for two-layer hierarchical models",
// JASA 118). No form of a distribution is assumed.
//
// What a site's own runs say, and which plan is the best, takes an effect of the source and one of the run: a model of
// random effects, by the method of moments (Hedges 1983, "A random effects model for effect sizes", Psychological
// Bulletin 93), with the variance within a source that is typical (Smyth 2004, "Linear models and empirical Bayes
// methods", SAGMB 3).
//
// Networks with scans, and those without, are compared with their own kind alone: the errors of the one say nothing
// about kernels that only the other has.
package intervals

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"psim/internal/units"
)

// The constants of the method. What they hold of was chosen after intervals of another method had been compared with
// runs (classes of like runs, Student's t), which held too many and were hardly narrower than one interval for all.
const (
	// Nominal is the share of measured steps that intervals are made to hold.
	Nominal = 0.8
	// leastSources is how many sources an interval needs: of fewer, even the largest error holds a smaller share.
	leastSources = 4
	// rounds is how often the lines are fitted, each time with the scales of the last as weights.
	rounds = 4
	// leastScale is the resolution of residuals.csv.
	leastScale = 1e-5
)

// Conditions are what the error of a prediction may depend on.
type Conditions struct {
	Stack string // as train.stack
	Chip  string // the device's name up to its first hyphen, such as h100
	Scans bool   // whether the network mixes tokens by scans (Mamba-2, delta nets)
	Bits  int    // of the numbers that products multiply
	// Products is the share of the predicted step that products and attention take.
	Products float64
}

// A Residual is the error of the prediction of a published run.
type Residual struct {
	Conditions
	Source, Table string
	// Training is the same for plans of one training, and "" where the source does not say.
	Training string
	// Log is the logarithm of the measured over the predicted time.
	Log float64
}

// Evidence is a list of residuals.
type Evidence []Residual

// A Spread says how errors are distributed: as a normal distribution whose nominal interval is that of the errors.
type Spread struct {
	Mean, Between, Within float64 // the mean, and the variances of effects of sources and of runs
	Class                 string  // which runs it was taken from, in words
	Runs, Sources         int
}

// All returns the spread of all errors, with one vote a source.
func (e Evidence) All() Spread { return e.own() }

// AtSite returns the spread of errors at a site where some errors are known. The site's effect is drawn from that
// of any site towards their mean, the nearer the more there are.
func (s Spread) AtSite(errors []float64) Spread {
	n, before := float64(len(errors)), s.Between
	if n == 0 || before == 0 {
		return s
	}
	s.Mean += (units.Mean(errors) - s.Mean) * n * before / (n*before + s.Within)
	s.Between = before * s.Within / (n*before + s.Within)
	s.Class = fmt.Sprintf("%s, and %s of this site", s.Class, units.Plural(len(errors), "run"))
	return s
}

// Or returns the spread if the step may also take a number of times as long as predicted, and either is as likely.
func (s Spread) Or(times float64) Spread {
	half := math.Log(times) / 2
	s.Mean, s.Within = s.Mean+half, s.Within+half*half
	return s
}

// Missing says why there is no evidence for a prediction, or "".
func (e Evidence) Missing(c Conditions) string {
	kin := e.like(c.Scans)
	has := func(like func(Residual) bool) bool { return slices.ContainsFunc(kin, like) }
	few := len(kin.bySource()) < leastSources
	switch {
	case few && c.Scans:
		return fmt.Sprintf("published runs of networks with scans (Mamba-2, delta nets) are of fewer than %d sources",
			leastSources)
	case !has(func(r Residual) bool { return r.Chip == c.Chip }):
		return fmt.Sprintf("no published run on %s is compared with predictions", c.Chip)
	case !has(func(r Residual) bool { return r.Bits == c.Bits }):
		return fmt.Sprintf("no published run in %d bits is compared with predictions", c.Bits)
	case few:
		return fmt.Sprintf("published runs are of fewer than %d sources", leastSources)
	}
	return ""
}

// like returns the residuals of networks of one kind: with scans, or without.
func (e Evidence) like(scans bool) (kin Evidence) {
	for _, r := range e {
		if r.Scans == scans {
			kin = append(kin, r)
		}
	}
	return kin
}

// bySource groups residuals by their source, in the order of first mention.
func (e Evidence) bySource() (groups []Evidence) {
	at := map[string]int{}
	for _, r := range e {
		i, ok := at[r.Source]
		if !ok {
			i = len(groups)
			at[r.Source], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// logs lists the errors, in order of size, so that sums do not depend on the order of rows.
func (e Evidence) logs() []float64 {
	list := make([]float64, len(e))
	for i, r := range e {
		list[i] = r.Log
	}
	slices.Sort(list)
	return list
}

// own estimates the spread from the residuals alone, with one vote a source.
func (e Evidence) own() Spread {
	groups := e.bySource()
	s := Spread{Runs: len(e), Sources: len(groups)}
	var means, inverse []float64
	var within []sample
	for _, g := range groups {
		logs := g.logs()
		means, inverse = append(means, units.Mean(logs)), append(inverse, 1/float64(len(logs)))
		if len(logs) > 1 {
			within = append(within, sample{variance(logs), float64(len(logs) - 1)})
		}
	}
	slices.Sort(means)
	slices.Sort(inverse)
	s.Mean, s.Within = units.Mean(means), typical(within)
	// Means of sources vary by the effects of sources, and by those of the runs that they are means of.
	s.Between = max(0, variance(means)-s.Within*units.Mean(inverse))
	return s
}

// variance returns the sample variance, 0 of fewer than two numbers.
func variance(list []float64) (v float64) {
	if len(list) < 2 {
		return 0
	}
	mean := units.Mean(list)
	for _, x := range list {
		v += (x - mean) * (x - mean) / float64(len(list)-1)
	}
	return v
}

// deviations returns half the nominal interval of a normal distribution, in standard deviations.
func deviations() float64 { return mathext.NormalQuantile((1 + Nominal) / 2) }

// Factors returns by what the predicted time is multiplied for the ends of the interval.
func (s Spread) Factors() (low, high float64) {
	half := deviations() * math.Sqrt(s.Between+s.Within)
	return math.Exp(s.Mean - half), math.Exp(s.Mean + half)
}
