package tracecsv

import (
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"psim/internal/csvfile"
	"psim/schedules/graph"
)

// A MemoryCurve is the memory in use on one rank over time, as steps.
type MemoryCurve struct {
	Rank int
	// Persistent is the memory that stays allocated throughout the step: parameters,
	// gradients and optimizer states. It is the level at time zero.
	Persistent int64
	// Points holds the level after every change, including persistent memory, in order of
	// time.
	Points []MemoryPoint
}

// A MemoryPoint is a level of memory in bytes from a time on.
type MemoryPoint struct {
	At    time.Duration
	Bytes int64
}

// Peak returns the highest level of the curve.
func (c MemoryCurve) Peak() int64 {
	peak := c.Persistent
	for _, p := range c.Points {
		peak = max(peak, p.Bytes)
	}
	return peak
}

// Levels lists the levels from time zero on. Of several levels at one time it lists the last.
func (c MemoryCurve) Levels() []MemoryPoint {
	list := []MemoryPoint{{Bytes: c.Persistent}}
	for _, p := range c.Points {
		if list[len(list)-1].At == p.At {
			list = list[:len(list)-1]
		}
		list = append(list, p)
	}
	return list
}

// MemoryCurves returns the memory of every rank of a trace. Ranks that are alike share their points.
func MemoryCurves(t *graph.Trace) []MemoryCurve {
	all := t.Graph.Ranks()
	curves := make([]MemoryCurve, 0, all)
	for c := range firstCurves(t) {
		curves = append(curves, c)
	}
	for first := len(curves); len(curves) < all; {
		c := curves[len(curves)-first]
		c.Rank = len(curves)
		curves = append(curves, c)
	}
	return curves
}

// EachCurve yields the memory of every rank of a trace, one after another, and keeps none.
func EachCurve(t *graph.Trace) iter.Seq[MemoryCurve] {
	return func(yield func(MemoryCurve) bool) {
		for replica := range t.Graph.Replicas() {
			for c := range firstCurves(t) {
				if c.Rank += replica * t.Graph.Shape.Ranks; !yield(c) {
					return
				}
			}
		}
	}
}

// firstCurves yields the memory of the ranks that have tasks in a trace, one after another.
func firstCurves(t *graph.Trace) iter.Seq[MemoryCurve] {
	return func(yield func(MemoryCurve) bool) {
		for r, changes := range t.ChangesByRank() {
			c := MemoryCurve{Rank: int(r)}
			if int(r) < len(t.Persistent) {
				c.Persistent = t.Persistent[r]
			}
			level := c.Persistent
			for e := range changes {
				level += e.Bytes
				c.Points = append(c.Points, MemoryPoint{e.At, level})
			}
			if !yield(c) {
				return
			}
		}
	}
}

const memoryColumns = "rank,time_ns,bytes"

// WriteMemoryCSV writes a row per change of memory: rank, time_ns and the level in bytes
// after the change. The first row of every rank is its persistent memory at time 0.
func WriteMemoryCSV(w io.Writer, curves iter.Seq[MemoryCurve]) error {
	out := csvfile.NewWriter(w, memoryColumns)
	for c := range curves {
		out.Row(c.Rank, 0, c.Persistent)
		for _, p := range c.Points {
			out.Int(int64(c.Rank))
			out.Int(p.At.Nanoseconds())
			out.Int(p.Bytes)
			out.EndRow()
		}
	}
	return out.End()
}

// ReadMemoryCSV reads curves that WriteMemoryCSV has written. Errors name the line and the
// column.
func ReadMemoryCSV(r io.Reader) ([]MemoryCurve, error) {
	rows, err := csvfile.NewReader(r, memoryColumns, len(memoryColumns))
	if err != nil {
		return nil, err
	}
	var curves []MemoryCurve
	for rows.Next() {
		rank := int(rows.Number("rank", 0, MaxNumber))
		at := time.Duration(rows.Number("time_ns", 0, math.MaxInt64))
		bytes := rows.Number("bytes", math.MinInt64, math.MaxInt64)
		n := len(curves)
		switch {
		case n == 0 || rank > curves[n-1].Rank:
			if at != 0 {
				rows.Fail("time_ns", fmt.Errorf("%d; the first row of rank %d must be its level at time 0", at, rank))
			}
			curves = append(curves, MemoryCurve{Rank: rank, Persistent: bytes})
		case rank < curves[n-1].Rank:
			rows.Fail("rank", fmt.Errorf("%d comes after %d; the rows must be sorted by rank", rank, curves[n-1].Rank))
		default:
			c := &curves[n-1]
			if k := len(c.Points); k > 0 && at < c.Points[k-1].At {
				rows.Fail("time_ns", fmt.Errorf("%d comes after %d; a rank's rows must be sorted by time",
					at, c.Points[k-1].At))
			}
			c.Points = append(c.Points, MemoryPoint{at, bytes})
		}
	}
	if rows.Err == nil && len(curves) == 0 {
		return nil, fmt.Errorf("line 2: no rank")
	}
	return curves, rows.Err
}
