package calibrate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"psim/costmodel/link"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A CollectiveTiming is the measured time of a collective.
type CollectiveTiming struct {
	Kind  graph.Kind // AllReduce, AllGather or ReduceScatter
	Ranks int
	Bytes int64 // of the whole tensor
	Time  time.Duration
	Nodes int // of the ranks; 0 if there is one, or if unknown
	// Guessed says that the file does not name its test. The numbers are those of an
	// all-gather, but those of alltoall look the same.
	Guessed bool
	Warning string // of the program that measured
}

// Limits of the fit, for each number of ranks.
const (
	mostRanges   = 3     // protocols and algorithms together
	leastInRange = 3     // sizes
	noise        = 0.001 // relative differences below it do not justify another range
	mostTimings  = 250   // the time of the fit grows with their cube
)

// FitTimings fits a link to timings: a table for every kind of collective that was
// timed, and constants for other numbers of ranks.
func FitTimings(timings []CollectiveTiming) (link.Link, error) {
	var l link.Link
	if len(timings) == 0 {
		return l, errors.New("no timing to fit")
	}
	for _, t := range timings {
		if !t.Kind.Collective() || t.Ranks < 2 || t.Time <= 0 || t.Bytes <= 0 {
			return l, errors.New("a collective has at least 2 ranks, and takes bytes and time")
		}
	}
	for _, table := range l.Tables() {
		ranges, err := fitTable(table, timings)
		if err != nil {
			return link.Link{}, err
		}
		l.SetTable(table.Kind, ranges)
	}
	return extrapolate(l), nil
}

// fitTable finds the ranges that price the collectives of one kind with the least
// relative squares, separately for every number of ranks. The Bayesian information
// criterion (Schwarz 1978) decides how many ranges there are, so that a range must be
// worth its three numbers.
func fitTable(table link.CollectiveTable, timings []CollectiveTiming) ([]link.SizeRange, error) {
	byRanks := map[int][]CollectiveTiming{}
	for _, t := range timings {
		if t.Kind == table.Kind {
			byRanks[t.Ranks] = append(byRanks[t.Ranks], t)
		}
	}
	var ranges []link.SizeRange
	for _, n := range slices.Sorted(maps.Keys(byRanks)) {
		list := byRanks[n]
		if len(list) > mostTimings {
			return nil, fmt.Errorf("there are %d times of %s over %d ranks, more than the %d that can be fitted; "+
				"leave out some sizes", len(list), table.Key, n, mostTimings)
		}
		slices.SortStableFunc(list, func(a, b CollectiveTiming) int { return cmp.Compare(a.Bytes, b.Bytes) })
		ranges = append(ranges, fitRanges(list)...)
	}
	return ranges, nil
}

// A prefixFit is the best fit of some ranges to the first timings of a list.
type prefixFit struct {
	squares float64
	ranges  []link.SizeRange
}

// fitRanges fits ranges of sizes to the timings of one kind and number of ranks.
func fitRanges(list []CollectiveTiming) []link.SizeRange {
	n := len(list)
	best, least := []link.SizeRange(nil), math.Inf(1)
	before := []prefixFit{0: {}} // by the number of timings
	for k := 1; k <= mostRanges; k++ {
		cuts := make([]prefixFit, n+1)
		for end := range cuts {
			cuts[end] = extendBest(list[:end], before, k == 1)
		}
		if last := cuts[n]; last.ranges != nil {
			constants := float64(3*k - 1)
			criterion := float64(n)*math.Log(last.squares/float64(n)+noise*noise) + constants*math.Log(float64(n))
			if criterion < least {
				best, least = last.ranges, criterion
			}
		}
		before = cuts
	}
	return best
}

// extendBest fits timings by one of the prefix fits and one range more.
func extendBest(list []CollectiveTiming, before []prefixFit, first bool) prefixFit {
	best := prefixFit{squares: math.Inf(1)}
	for from := range list {
		switch {
		case first && from > 0:
			return best
		case first:
		case from == 0 || before[from].ranges == nil || len(list)-from < leastInRange:
			continue
		case list[from-1].Bytes == list[from].Bytes:
			continue
		}
		r, squares := fitRange(list[from:])
		if from == 0 {
			r.From = 0
		}
		if sum := before[from].squares + squares; sum < best.squares {
			best = prefixFit{sum, append(slices.Clone(before[from].ranges), r)}
		}
	}
	return best
}

// fitRange fits one range to timings of one kind and number of ranks, and returns
// its relative squares. If the bytes have no visible effect on times, they get a slope
// that is too small to be seen.
func fitRange(list []CollectiveTiming) (link.SizeRange, float64) {
	var rows [][]float64
	var times []float64
	kind, n := list[0].Kind, float64(list[0].Ranks)
	for _, t := range list {
		moved := float64(link.Moves(kind)) * (n - 1) / n * float64(t.Bytes)
		rows, times = append(rows, []float64{1, moved}), append(times, t.Time.Seconds())
	}
	last := len(rows) - 1
	per := leastSquares(rows, times, times)
	if list[0].Bytes == list[last].Bytes { // one size cannot separate start-up from bytes: all counts as bytes
		for _, row := range rows {
			row[0] = 0
		}
		per = leastSquares(rows, times, times)
	}
	slope := max(per[1], noise*times[last]/max(1, rows[last][1]))
	r := link.SizeRange{
		Ranks: list[0].Ranks, From: units.Bytes(list[0].Bytes),
		Call: units.Duration(units.Seconds(Significant(per[0]))), Bandwidth: units.Rate(Significant(1 / slope)),
	}
	var squares float64
	for _, t := range list {
		off := float64(r.Time(kind, t.Bytes))/float64(t.Time) - 1
		squares += off * off
	}
	return r, squares
}

// Significant rounds to four digits, more than the precision of measurements.
func Significant(x float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return x
	}
	return r
}

// extrapolate adds the constants that price other numbers of ranks, from the table of
// all-reduces or else from the first table. A start-up that consists of one call and the
// steps of a ring is fitted to the start-ups of the table, and the bandwidth is that of
// the most ranks. A single transfer has the bandwidth of the fewest ranks.
func extrapolate(l link.Link) link.Link {
	tables := l.Tables()
	from := slices.IndexFunc(tables, func(t link.CollectiveTable) bool { return len(t.Ranges) > 0 })
	steps, ranges := float64(link.Moves(tables[from].Kind)), tables[from].Ranges
	var rows [][]float64
	var calls []float64
	for i, r := range ranges {
		if r.From == 0 {
			rows = append(rows, []float64{1, steps * float64(r.Ranks-1)})
			calls = append(calls, time.Duration(r.Call).Seconds())
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
	l.Call = units.Duration(units.Seconds(Significant(per[0])))
	l.Latency = units.Duration(units.Seconds(Significant(per[1])))
	return l
}
