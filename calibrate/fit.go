// Package calibrate turns measurements into what package costmodel prices with:
// timings of layers into the rates of a roofline, transfers into the rate of a
// copy, and the output of nccl-tests into links with tables of collectives.
package calibrate

import (
	"errors"
	"math"
	"time"

	"psim/costmodel"
	"psim/costmodel/network"
	"psim/costmodel/training"
	"psim/internal/units"
)

// A Timing is how long one pass of a layer took on a device, in fp32.
type Timing struct {
	Layer   network.Layer
	Pass    network.Pass
	Samples int64
	Time    time.Duration
}

// Roofline are those of the roofline: achievable rates, and the cost of
// starting one operation.
type Roofline struct {
	FLOPS     units.FLOPS
	Bandwidth units.Rate // 0 is unlimited
	Launch    units.Duration
	// Error is the sum of the differences between timings and prices by these
	// constants, as a fraction of the sum of the timings.
	Error float64
}

// fitRounds allows more rounds than the operations ever took to find their side of the
// roofline.
const fitRounds = 30

// fitElement counts the bytes of an activation in fp32.
const fitElement = 4

// FitRoofline finds the constants that price the passes of layers with the
// least squares, where a long pass may be off by more than a short one: the
// square of a difference counts per second of the timing. An operation is bound by
// computing or by moving. With that assumed of each (products compute, others
// move), times are linear in the constants' reciprocals; with the constants found the assumption is made anew,
// until it stays. The launch is at most what calling a program took whose one
// operation does nothing: what remains above that belongs to the work.
func FitRoofline(timings []Timing, call time.Duration) (Roofline, error) {
	best := Roofline{Error: math.Inf(1)}
	var flops, took float64
	for _, t := range timings {
		if n := float64(t.Layer.FLOPs(t.Pass)) * float64(t.Samples); n > 0 && t.Time > 0 {
			flops, took = flops+n, took+t.Time.Seconds()
		}
	}
	if flops == 0 {
		return best, errors.New("no layer that was measured has a matrix product, so that the rate of computing is not known")
	}
	computes := func(o network.Op, _, _ float64) bool { return o.Class == network.Product }
	var before []float64
	for range fitRounds {
		per := fitOnce(timings, call, computes)
		if c := constants(per, timings); c.Error < best.Error {
			best = c
		}
		if before != nil && [3]float64(per) == [3]float64(before) {
			break
		}
		before = per
		computes = func(_ network.Op, flops, bytes float64) bool { return flops*per[0] >= bytes*per[1] }
	}
	if math.IsInf(best.Error, 1) { // the timings do not tell: all of the time goes to computing
		best = constants([]float64{took / flops, 0, 0}, timings)
	}
	return best, nil
}

// fitOnce finds the seconds per FLOP, per byte and per operation, with every
// operation on one side of the roofline.
func fitOnce(timings []Timing, call time.Duration, computes func(o network.Op, flops, bytes float64) bool) []float64 {
	var rows [][]float64
	var times, scales []float64
	for _, t := range timings {
		row := make([]float64, 3)
		for _, o := range t.Layer.Ops {
			flops, bytes := float64(o.FLOPs(t.Pass))*float64(t.Samples), float64(o.Bytes(t.Pass, t.Samples, fitElement))
			switch {
			case flops == 0 && bytes == 0:
				continue
			case computes(o, flops, bytes):
				row[0] += flops
			default:
				row[1] += bytes
			}
			row[2]++
		}
		if row[2] > 0 && t.Time > 0 {
			took := t.Time.Seconds()
			rows, times, scales = append(rows, row), append(times, took), append(scales, math.Sqrt(took))
		}
	}
	per, most := leastSquares(rows, times, scales), call.Seconds()
	if per[2] <= most {
		return per
	}
	for i, row := range rows {
		times[i] -= most * row[2]
		rows[i] = row[:2]
	}
	return append(leastSquares(rows, times, scales), most)
}

// constants turns reciprocals into rates.
func constants(per []float64, timings []Timing) Roofline {
	c := Roofline{FLOPS: units.FLOPS(reciprocal(per[0])), Bandwidth: units.Rate(reciprocal(per[1])), Launch: units.Duration(units.Seconds(per[2])), Error: math.Inf(1)}
	if c.FLOPS == 0 {
		return c
	}
	compute, err := costmodel.NewCompute(costmodel.Device{
		Peak: costmodel.Peak{FP32: c.FLOPS}, MemoryBandwidth: c.Bandwidth, Launch: c.Launch,
		Efficiency: costmodel.Efficiency{FP32: 1, Memory: 1},
	}, training.Options{})
	if err != nil { // a rate without bounds
		return c
	}
	var off, whole float64
	for _, t := range timings {
		price := compute.Layer(t.Layer, t.Pass, t.Samples)
		off, whole = off+math.Abs(float64(price-t.Time)), whole+float64(t.Time)
	}
	c.Error = off / whole
	return c
}

func reciprocal(x float64) float64 {
	if x == 0 {
		return 0
	}
	return 1 / x
}

// A MeasuredCopy is how long moving a number of bytes took, in a number of pieces.
type MeasuredCopy struct {
	Pieces int
	Bytes  int64
	Time   time.Duration
}

// FitTransfers finds the time that every piece takes whatever its size, and the
// bytes per second (0 if their number shows no influence), with the least
// relative squares.
func FitTransfers(list []MeasuredCopy) (perPiece units.Duration, rate units.Rate) {
	var rows [][]float64
	var times []float64
	for _, t := range list {
		if t.Time > 0 {
			rows, times = append(rows, []float64{float64(t.Pieces), float64(t.Bytes)}), append(times, t.Time.Seconds())
		}
	}
	if len(rows) == 0 {
		return 0, 0
	}
	per := leastSquares(rows, times, times)
	return units.Duration(units.Seconds(per[0])), units.Rate(reciprocal(per[1]))
}
