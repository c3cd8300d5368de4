package intervals

import (
	"math"
	"math/rand/v2"
	"slices"

	"psim/internal/units"
)

// A Held is a residual with the interval that it would have been given by the other sources.
type Held struct {
	Residual
	Missing   string  // why there is none, or ""
	Low, High float64 // ends of the interval, as logarithms
	Inside    bool
	// Score is Winkler's interval score, the width and a penalty for a miss; Constant is that of one interval for
	// all runs, from the 10th to the 90th percentile of the errors of the other sources, with one vote each.
	Score, Constant float64
}

// A Coverage says how many published runs lie in the intervals that other sources give them.
type Coverage struct {
	Sources []SourceCoverage `json:"sources"`
	// Mean is the mean over sources of the share inside; 90 % of bootstraps over sources lie from Low to High.
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Score and Constant are the means over sources of the interval scores, and of those of one interval
	// for all runs.
	Score    float64 `json:"interval_score"`
	Constant float64 `json:"constant_interval_score"`
	Missing  int     `json:"without_interval"` // rows
}

// A SourceCoverage says how many runs of a source lie in their intervals.
type SourceCoverage struct {
	Source  string  `json:"source"`
	Rows    int     `json:"rows"`
	Missing int     `json:"without_interval,omitempty"`
	Inside  float64 `json:"inside"` // of the rows with an interval
}

// Hold gives every residual the interval that the other sources give it.
func (e Evidence) Hold() (list []Held) {
	for _, of := range e.bySource() {
		others := e.Without(of[0].Source)
		model := others.Model()
		low, high := others.percentile((1-Nominal)/2), others.percentile((1+Nominal)/2)
		for _, r := range of {
			h := Held{Residual: r, Missing: others.Missing(r.Conditions)}
			if h.Missing == "" {
				from, to := model.Of(r.Conditions).Factors()
				h.Low, h.High = math.Log(from), math.Log(to)
				h.Inside = h.Low <= r.Log && r.Log <= h.High
				h.Score, h.Constant = winkler(h.Low, h.High, r.Log), winkler(low, high, r.Log)
			}
			list = append(list, h)
		}
	}
	return list
}

// Without returns the residuals that are not of a source.
func (e Evidence) Without(source string) (others Evidence) {
	for _, r := range e {
		if r.Source != source {
			others = append(others, r)
		}
	}
	return others
}

// percentile returns the error below which a share of the errors lie, each source having one vote.
func (e Evidence) percentile(share float64) float64 {
	var votes []vote
	groups := e.bySource()
	for _, of := range groups {
		for _, r := range of {
			votes = append(votes, vote{r.Log, 1 / float64(len(of)*len(groups))})
		}
	}
	return quantile(votes, share)
}

// winkler returns the interval score (Winkler 1972, JASA 67; Gneiting and Raftery 2007, JASA 102).
func winkler(low, high, x float64) float64 {
	return high - low + 2/(1-Nominal)*(max(0, low-x)+max(0, x-high))
}

// Sum sums up the intervals of residuals by source.
func Sum(held []Held) (c Coverage) {
	var inside, scores, constants []float64
	for len(held) > 0 {
		n := 1
		for n < len(held) && held[n].Source == held[0].Source {
			n++
		}
		s := SourceCoverage{Source: held[0].Source, Rows: n}
		var score, constant float64
		for _, h := range held[:n] {
			switch {
			case h.Missing != "":
				s.Missing++
			case h.Inside:
				s.Inside++
			}
			score, constant = score+h.Score, constant+h.Constant
		}
		if with := float64(n - s.Missing); with > 0 {
			s.Inside /= with
			inside, scores = append(inside, s.Inside), append(scores, score/with)
			constants = append(constants, constant/with)
		}
		c.Missing += s.Missing
		c.Sources, held = append(c.Sources, s), held[n:]
	}
	if inside != nil {
		c.Mean, c.Score, c.Constant = units.Mean(inside), units.Mean(scores), units.Mean(constants)
		c.Low, c.High = bootstrap(inside)
	}
	return c
}

// bootstrap returns where 90 % of the means lie of lists that are drawn from the numbers, as many as there
// are (Efron 1979, Annals of Statistics 7). The same are drawn at every call.
func bootstrap(list []float64) (low, high float64) {
	const times = 2000
	random := rand.New(rand.NewPCG(1, 2))
	means := make([]float64, times)
	for i := range means {
		for range list {
			means[i] += list[random.IntN(len(list))] / float64(len(list))
		}
	}
	slices.Sort(means)
	return means[times/20], means[times-times/20-1]
}
