// Package calibrate fits the constants of package costmodel to measurements: rates of a
// roofline to timings of layers ([FitRoofline]), the rate of a copy to transfers
// ([FitTransfers]), and links with tables of collectives to the output of nccl-tests
// ([ReadNCCLTests], [FitLink]).
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

// A Timing is the measured time of one pass of a layer on a device, in fp32.
type Timing struct {
	Layer   network.Layer
	Pass    network.Pass
	Samples int64
	Time    time.Duration
}

// A Roofline holds the constants of a roofline: achievable rates, and the time to start
// an operation.
type Roofline struct {
	FLOPS     units.FLOPS
	Bandwidth units.Rate // 0 is unlimited
	Launch    units.Duration
	// Error is the sum of the differences between timings and prices with these
	// constants, as a fraction of the sum of the timings.
	Error float64
}

// fitRounds is more than FitRoofline has ever needed.
const fitRounds = 30

// fitElement is the size of an activation in fp32, in bytes.
const fitElement = 4

// FitRoofline finds the constants that price the passes of layers with the least squares.
// A square counts per second of its timing, so that a long pass may be off by more than a
// short one. Every operation is bound either by computing or by moving data. Once that is
// assumed for each (at first, products compute and others move), times are linear in the
// reciprocals of the constants. The fit then derives new assumptions from the constants,
// and repeats until they stay the same. The launch is at most call, the time to call a
// program whose only operation does nothing; the rest belongs to the work.
func FitRoofline(timings []Timing, call time.Duration) (Roofline, error) {
	best := Roofline{Error: math.Inf(1)}
	var flops, took float64
	for _, t := range timings {
		if n := t.Layer.FLOPs(t.Pass) * float64(t.Samples); n > 0 && t.Time > 0 {
			flops, took = flops+n, took+t.Time.Seconds()
		}
	}
	if flops == 0 {
		return best, errors.New("no measured layer has a matrix product, so the rate of computing is unknown")
	}
	computes := func(o network.Op, _, _ float64) bool { return o.Class == network.Product }
	var before []float64
	for range fitRounds {
		per := fitSides(timings, call, computes)
		if c := constants(per, timings); c.Error < best.Error {
			best = c
		}
		if before != nil && [3]float64(per) == [3]float64(before) {
			break
		}
		before = per
		computes = func(_ network.Op, flops, bytes float64) bool { return flops*per[0] >= bytes*per[1] }
	}
	if math.IsInf(best.Error, 1) { // undetermined: all of the time counts as computing
		best = constants([]float64{took / flops, 0, 0}, timings)
	}
	return best, nil
}

// fitSides finds the seconds per FLOP, per byte and per operation. computes says on which
// side of the roofline an operation is.
func fitSides(timings []Timing, call time.Duration, computes func(o network.Op, flops, bytes float64) bool) []float64 {
	var rows [][]float64
	var times, scales []float64
	for _, t := range timings {
		row := make([]float64, 3)
		for _, o := range t.Layer.Ops {
			flops := o.FLOPs(t.Pass) * float64(t.Samples)
			bytes := float64(o.Bytes(t.Pass, t.Samples, fitElement))
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

// constants makes a Roofline of reciprocals, and computes its error.
func constants(per []float64, timings []Timing) Roofline {
	c := Roofline{
		FLOPS: units.FLOPS(reciprocal(per[0])), Bandwidth: units.Rate(reciprocal(per[1])),
		Launch: units.Duration(units.Seconds(per[2])), Error: math.Inf(1),
	}
	if c.FLOPS == 0 {
		return c
	}
	compute, err := costmodel.NewCompute(costmodel.Device{
		Peak: costmodel.Peak{FP32: c.FLOPS}, MemoryBandwidth: c.Bandwidth, Launch: c.Launch,
		Efficiency: costmodel.Efficiency{FP32: 1, Memory: 1},
	}, training.Options{})
	if err != nil { // a rate is out of range
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

// A MeasuredCopy is the time to move a number of bytes in a number of pieces.
type MeasuredCopy struct {
	Pieces int
	Bytes  int64
	Time   time.Duration
}

// FitTransfers finds the time per piece and the bytes per second with the least relative
// squares. The rate is 0 if the number of bytes has no effect.
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
