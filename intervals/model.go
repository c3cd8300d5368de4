package intervals

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// An ErrorModel says how errors of predictions are distributed, by evidence.
type ErrorModel struct {
	without, with *kind // networks without scans, and with
}

// A kind says how errors of a kind of networks are distributed.
type kind struct {
	lines
	class         string // in words
	runs, sources int
	between       float64 // the share of the variance that is of effects of sources
	width         float64 // half an interval, in scales
}

// A line is a number that depends on the share of products: its values for a step without any, and for one of nothing
// else.
type line struct{ none, all float64 }

func (l line) at(share float64) float64 { return l.none + (l.all-l.none)*share }

// The lines of the mean and of the scale of errors.
type lines struct{ mean, scale line }

// A vote is a number with its weight. The weights of all votes add up to 1.
type vote struct{ size, weight float64 }

// Model fits a model to the evidence.
func (e Evidence) Model() ErrorModel {
	return ErrorModel{e.like(false).kind("networks without scans"), e.like(true).kind("networks with scans")}
}

// Of returns the spread of errors under the conditions. There must be evidence ([Evidence.Missing]).
func (m ErrorModel) Of(c Conditions) Spread {
	k := m.without
	if c.Scans {
		k = m.with
	}
	deviation := k.width * k.scaleAt(c.Products) / deviations()
	return Spread{
		Mean: k.mean.at(c.Products), Runs: k.runs, Sources: k.sources,
		Between: deviation * deviation * k.between, Within: deviation * deviation * (1 - k.between),
		Class: fmt.Sprintf("%s, for a step that is %.0f %% products and attention", k.class, 100*c.Products),
	}
}

// kind fits lines to the evidence of a kind of networks, or returns nil if it is of too few sources.
func (e Evidence) kind(class string) *kind {
	e = slices.Clone(e)
	slices.SortFunc(e, func(a, b Residual) int { // so that sums do not depend on the order of rows
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Products, b.Products),
			cmp.Compare(a.Log, b.Log))
	})
	groups := e.bySource()
	if len(groups) < leastSources {
		return nil
	}
	k := &kind{lines: fit(groups), class: class, runs: len(e), sources: len(groups)}
	scaled := make(Evidence, 0, len(e))
	var votes []vote
	for i, of := range groups {
		others := fit(slices.Delete(slices.Clone(groups), i, i+1))
		for _, r := range of {
			r.Log = (r.Log - others.mean.at(r.Products)) / others.scaleAt(r.Products)
			scaled = append(scaled, r)
			votes = append(votes, vote{math.Abs(r.Log), 1 / float64(len(of)*len(groups))})
		}
	}
	if all := scaled.own(); all.Between > 0 {
		k.between = all.Between / (all.Between + all.Within)
	}
	// A further source may be farther off than all of these.
	k.width = quantile(votes, Nominal*float64(len(groups)+1)/float64(len(groups)))
	return k
}

// quantile returns the size up to which votes have a share of the weight.
func quantile(votes []vote, share float64) (size float64) {
	slices.SortFunc(votes, func(a, b vote) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.weight, b.weight))
	})
	const rounding = 1e-9
	below := rounding
	for _, v := range votes {
		if size, below = v.size, below+v.weight; below >= share {
			break
		}
	}
	return size
}

// scaleAt returns the scale of errors, at least that of their last digit.
func (l lines) scaleAt(share float64) float64 { return max(leastScale, l.scale.at(share)) }

// fit fits the lines of mean and scale to the residuals of sources, with one vote a source.
func fit(sources []Evidence) lines {
	l := lines{scale: line{1, 1}}
	for range rounds {
		weights := l
		l.mean = fitLine(sources, weights, func(r *Residual) float64 { return r.Log })
		off := func(r *Residual) float64 { return math.Abs(r.Log - l.mean.at(r.Products)) }
		l.scale = fitLine(sources, weights, off).positive()
	}
	return l
}

// fitLine fits a line to a number of each residual by least squares, where a residual's weight is its share of its
// source's vote and falls with the square of its scale. Where all have one share of products, the line is level.
func fitLine(sources []Evidence, l lines, of func(*Residual) float64) line {
	var n, x, y, xx, xy float64
	for _, source := range sources {
		for i := range source {
			r := &source[i]
			scale := l.scaleAt(r.Products)
			w, at, value := 1/(float64(len(source))*scale*scale), r.Products, of(r)
			n, x, y, xx, xy = n+w, x+w*at, y+w*value, xx+w*at*at, xy+w*at*value
		}
	}
	const level = 1e-9 // of the variance of the shares
	slope := 0.
	if spread := n*xx - x*x; spread > level*n*n {
		slope = (n*xy - x*y) / spread
	}
	none := (y - slope*x) / n
	return line{none, none + slope}
}

// positive replaces an end below zero, which a scale cannot have, by zero.
func (l line) positive() line { return line{max(0, l.none), max(0, l.all)} }
