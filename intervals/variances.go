package intervals

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// A sample is the variance of the errors of a source's runs, with its degrees of freedom.
type sample struct{ variance, freedom float64 }

// leastOfMedian is the share of the median variance below which a source's counts as that much: runs that a
// source has printed as equal have no logarithm of a variance.
const leastOfMedian = 1e-5

// typical returns the variance about which those of sources are scattered, as an inverse χ² has it, from the mean
// and the spread of their logarithms (Smyth 2004, SAGMB 3, section 6.2). Of no samples it is 0.
func typical(samples []sample) float64 {
	if len(samples) == 0 {
		return 0
	}
	slices.SortFunc(samples, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.variance, b.variance), cmp.Compare(a.freedom, b.freedom))
	})
	least := leastOfMedian * samples[len(samples)/2].variance
	if least == 0 {
		return 0
	}
	var mean, spread, variances float64
	logs := make([]float64, len(samples))
	n := float64(len(samples))
	for i, s := range samples {
		logs[i] = math.Log(max(s.variance, least)) - bias(s.freedom)
		mean, variances = mean+logs[i]/n, variances+s.variance/n
	}
	if n > 1 {
		for i, s := range samples {
			spread += (logs[i]-mean)*(logs[i]-mean)/(n-1) - trigamma(s.freedom/2)/n
		}
	}
	if spread <= 0 { // no more than samples of one variance vary
		return variances
	}
	return math.Exp(mean + bias(priorFreedom(spread)))
}

// bias returns by how much the logarithm of a variance that is estimated with degrees of freedom is off in the mean.
func bias(freedom float64) float64 { return mathext.Digamma(freedom/2) - math.Log(freedom/2) }

// trigamma returns the derivative of digamma: the variance of a logarithm of χ² with 2x degrees of freedom.
func trigamma(x float64) float64 { return mathext.Zeta(2, x) }

// priorFreedom returns the degrees of freedom with which true variances have logarithms of a spread.
func priorFreedom(spread float64) float64 {
	low, high := 1e-6, 1e9 // trigamma falls
	for high/low > 1+1e-12 {
		if middle := math.Sqrt(low * high); trigamma(middle) > spread {
			low = middle
		} else {
			high = middle
		}
	}
	return 2 * low
}
