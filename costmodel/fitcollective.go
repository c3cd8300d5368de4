package costmodel

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"psim/internal/units"
	"psim/schedules"
)

// An AllReduceTiming is how long an all-reduce took.
type AllReduceTiming struct {
	Ranks int
	Bytes int64
	Time  time.Duration
}

// Limits of the fit: a number of ranks has at most so many ranges, protocols and
// algorithms together, each of so many sizes; and differences below steady do
// not speak for another range.
const (
	mostRanges   = 3
	leastInRange = 3
	steady       = 0.001
	mostTimings  = 500 // of a number of ranks: the fit's time grows with their cube
)

// FitAllReduce finds the ranges that price all-reduces with the least relative
// squares, for every number of ranks by itself. How many they are is decided by
// the Bayesian information criterion (Schwarz 1978), so that a range must be worth
// its three numbers.
func FitAllReduce(list []AllReduceTiming) ([]CollectiveRange, error) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b AllReduceTiming) int {
		return cmp.Or(cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(a.Bytes, b.Bytes))
	})
	var ranges []CollectiveRange
	for len(list) > 0 {
		n := list[0].Ranks
		end := slices.IndexFunc(list, func(t AllReduceTiming) bool { return t.Ranks != n })
		if end < 0 {
			end = len(list)
		}
		if n < 2 || slices.ContainsFunc(list[:end], func(t AllReduceTiming) bool { return t.Time <= 0 || t.Bytes <= 0 }) {
			return nil, errors.New("an all-reduce has at least 2 ranks, and takes bytes and time")
		}
		if end > mostTimings {
			return nil, fmt.Errorf("there are %d times of %d ranks, more than the %d that can be fitted; leave out some sizes", end, n, mostTimings)
		}
		ranges = append(ranges, fitRanges(list[:end])...)
		list = list[end:]
	}
	if len(ranges) == 0 {
		return nil, errors.New("there is no timing to fit")
	}
	return ranges, nil
}

// A rangesTo is the best way to price the first timings by some ranges.
type rangesTo struct {
	squares float64
	ranges  []CollectiveRange
}

// fitRanges fits the timings of one number of ranks, by size.
func fitRanges(list []AllReduceTiming) []CollectiveRange {
	n := len(list)
	best, least := []CollectiveRange(nil), math.Inf(1)
	before := []rangesTo{0: {}} // by the number of timings that are priced
	for k := 1; k <= mostRanges; k++ {
		cuts := make([]rangesTo, n+1)
		for end := range cuts {
			cuts[end] = extend(list[:end], before, k == 1)
		}
		if last := cuts[n]; last.ranges != nil {
			constants := float64(3*k - 1)
			criterion := float64(n)*math.Log(last.squares/float64(n)+steady*steady) + constants*math.Log(float64(n))
			if criterion < least {
				best, least = last.ranges, criterion
			}
		}
		before = cuts
	}
	return best
}

// extend prices timings by the ranges of one of the cuts and one range more.
func extend(list []AllReduceTiming, before []rangesTo, first bool) rangesTo {
	best := rangesTo{squares: math.Inf(1)}
	for from := range list {
		switch {
		case first && from > 0:
			return best
		case first:
		case from == 0 || before[from].ranges == nil || len(list)-from < leastInRange || list[from-1].Bytes == list[from].Bytes:
			continue
		}
		r, squares := fitRange(list[from:])
		if from == 0 {
			r.From = 0
		}
		if sum := before[from].squares + squares; sum < best.squares {
			best = rangesTo{sum, append(slices.Clone(before[from].ranges), r)}
		}
	}
	return best
}

// fitRange fits one range to timings of one number of ranks, and returns its
// relative squares. Where times show no influence of the bytes, those get so
// little that it cannot be seen.
func fitRange(list []AllReduceTiming) (CollectiveRange, float64) {
	var rows [][]float64
	var times []float64
	n := float64(list[0].Ranks)
	for _, t := range list {
		rows, times = append(rows, []float64{1, 2 * (n - 1) / n * float64(t.Bytes)}), append(times, t.Time.Seconds())
	}
	per := leastSquares(rows, times, times)
	last := len(rows) - 1
	slope := max(per[1], steady*times[last]/max(1, rows[last][1]))
	r := CollectiveRange{
		Ranks: list[0].Ranks, From: units.Bytes(list[0].Bytes),
		Call: units.Duration(seconds(significant(per[0]))), Bandwidth: units.Rate(significant(1 / slope)),
	}
	var squares float64
	for _, t := range list {
		off := float64(r.at(schedules.AllReduce, t.Bytes))/float64(t.Time) - 1
		squares += off * off
	}
	return r, squares
}

// significant rounds to four digits, which is more than a measurement tells.
func significant(x float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x
	}
	return r
}

// FitLink makes a link of ranges: they are its table, and for other numbers of
// ranks a start-up of one call and 2(n−1) steps is fitted to those of the table,
// and the bandwidth is that of the most ranks. One transfer has the bandwidth of
// two ranks, if they were measured.
func FitLink(ranges []CollectiveRange) Link {
	var rows [][]float64
	var calls []float64
	l := Link{AllReduce: ranges}
	for i, r := range ranges {
		if r.From == 0 {
			rows, calls = append(rows, []float64{1, 2 * float64(r.Ranks-1)}), append(calls, time.Duration(r.Call).Seconds())
		}
		if last := i+1 == len(ranges) || ranges[i+1].Ranks != r.Ranks; last {
			l.Collective = r.Bandwidth
			if i == 0 || ranges[0].Ranks == r.Ranks {
				l.Bandwidth = r.Bandwidth
			}
		}
	}
	ones := slices.Repeat([]float64{1}, len(calls))
	per := leastSquares(rows, calls, ones)
	l.Call, l.Latency = units.Duration(seconds(significant(per[0]))), units.Duration(seconds(significant(per[1])))
	return l
}
