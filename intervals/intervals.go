// Package intervals says how far off a predicted step time may be, from how far off predictions of published
// training runs were.
//
// An error is the logarithm of the measured over the predicted time of a step, predicted with constants that
// have not seen any run of the error's source (residuals.csv, which make leave-out writes). It is taken as the sum
// of a mean, an effect of the source, and one of the run: a model of random effects, by the method of moments
// with one vote a source (Hedges 1983, "A random effects model for effect sizes", Psychological Bulletin 93).
// How much runs of one source vary differs from source to source, and a few extreme runs would decide a mean
// of variances: the typical one is taken (Smyth 2004, "Linear models and empirical Bayes methods", SAGMB 3).
// The interval is where a further run of a further source is expected (Higgins, Thompson and Spiegelhalter
// 2009, "A re-evaluation of random-effects meta-analysis", JRSS A 172), with Student's t.
//
// Runs are compared with their like: a class counts by itself if enough sources stand for it, and its mean
// and variances are drawn towards those of the wider class. Networks with scans, and those without, are compared with
// their own kind alone: the errors of the one say nothing about kernels that only the other has.
package intervals

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mathext"

	"psim/internal/units"
)

// The constants of the method. They were fixed before any interval was compared with a run. Three choices came after
// that: the typical variance within sources instead of the mean, no class for programs that nobody else has run, and
// networks with scans apart, whose runs intervals of other networks had held too rarely.
const (
	// Nominal is the share of measured steps that intervals are made to hold.
	Nominal = 0.8
	// sourcesOfClass is how many sources must stand for a class that counts by itself.
	sourcesOfClass = 3
	// priorSources is how many sources the wider class counts for.
	priorSources = 3
)

// Conditions are what the error of a prediction may depend on.
type Conditions struct {
	Stack   string // as train.stack
	Chip    string // the device's name up to its first hyphen, such as h100
	Mixture bool   // whether the network is a mixture of experts
	Scans   bool   // whether the network mixes tokens by scans (Mamba-2, delta nets)
	Bits    int    // of the numbers that products multiply
	Tensor  int    // devices of a tensor group
	Nodes   int
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

// A Spread says how errors are distributed: by Student's t with a mean and a scale.
type Spread struct {
	Mean, Between, Within float64 // the mean, and the variances of effects of sources and of runs
	Error                 float64 // variance of the mean
	Freedom               float64 // degrees of freedom
	Class                 string  // which runs it was taken from, in words
	Runs, Sources         int
}

// words returns the classes of conditions, from the first to ask for to the last.
func (c Conditions) words() []string {
	pick := func(yes bool, a, b string) string {
		if yes {
			return a
		}
		return b
	}
	return []string{
		pick(c.Mixture, "mixtures of experts", "dense networks"),
		fmt.Sprintf("%d bits", c.Bits),
		pick(c.Tensor > 1, "with tensor groups", "without tensor groups"),
		pick(c.Nodes > 1, "several nodes", "one node"),
	}
}

// All returns the spread of all errors.
func (e Evidence) All() Spread { return e.own() }

// AtSite returns the spread of errors at a site where some errors are known. The site's effect is drawn from that
// of any site towards their mean, the nearer the more there are.
func (s Spread) AtSite(errors []float64) Spread {
	if len(errors) == 0 {
		return s
	}
	n, before := float64(len(errors)), s.Between+s.Error
	if before == 0 {
		return s
	}
	s.Mean += (units.Mean(errors) - s.Mean) * n * before / (n*before + s.Within)
	s.Between, s.Error = before*s.Within/(n*before+s.Within), 0
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
	kin := e.like(c)
	has := func(like func(Residual) bool) bool { return slices.ContainsFunc(kin, like) }
	few := len(kin.bySource()) < sourcesOfClass
	switch {
	case few && c.Scans:
		return fmt.Sprintf("published runs of networks with scans (Mamba-2, delta nets) are of fewer than %d sources",
			sourcesOfClass)
	case !has(func(r Residual) bool { return r.Chip == c.Chip }):
		return fmt.Sprintf("no published run on %s is compared with predictions", c.Chip)
	case !has(func(r Residual) bool { return r.Bits == c.Bits }):
		return fmt.Sprintf("no published run in %d bits is compared with predictions", c.Bits)
	case few:
		return fmt.Sprintf("published runs are of fewer than %d sources", sourcesOfClass)
	}
	return ""
}

// Of returns the spread of errors under the conditions. There must be evidence (Missing).
func (e Evidence) Of(c Conditions) Spread {
	e = e.like(c)
	spread, class := e.own(), []string{}
	for i, word := range c.words() {
		var like Evidence
		for _, r := range e {
			if r.words()[i] == word {
				like = append(like, r)
			}
		}
		if len(like.bySource()) < sourcesOfClass {
			continue
		}
		e, class = like, append(class, word)
		spread = e.own().towards(spread)
	}
	if spread.Class = strings.Join(class, ", "); class == nil {
		spread.Class = "all programs"
	}
	return spread
}

// like returns the residuals of networks of the same kind: with scans, or without.
func (e Evidence) like(c Conditions) (kin Evidence) {
	for _, r := range e {
		if r.Scans == c.Scans {
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
	s := Spread{Runs: len(e), Sources: len(groups), Freedom: float64(len(groups) - 1)}
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
	s.Error = (s.Between + s.Within*units.Mean(inverse)) / float64(s.Sources)
	return s
}

// towards draws a class's spread towards that of the wider class.
func (s Spread) towards(wider Spread) Spread {
	own := float64(s.Sources) / float64(s.Sources+priorSources)
	draw := func(x, to float64) float64 { return own*x + (1-own)*to }
	s.Mean, s.Between = draw(s.Mean, wider.Mean), draw(s.Between, wider.Between)
	s.Within, s.Error = draw(s.Within, wider.Within), draw(s.Error, wider.Error)
	s.Freedom += priorSources
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

// Factors returns by what the predicted time is multiplied for the ends of the interval.
func (s Spread) Factors() (low, high float64) {
	// The quantile of Student's distribution, for which the two tails have 1 − Nominal.
	x := mathext.InvRegIncBeta(s.Freedom/2, 0.5, 1-Nominal)
	t := math.Sqrt(s.Freedom * (1 - x) / x)
	half := t * math.Sqrt(s.Between+s.Within+s.Error)
	return math.Exp(s.Mean - half), math.Exp(s.Mean + half)
}
