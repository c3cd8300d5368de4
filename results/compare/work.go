package compare

import (
	"fmt"
	"math"

	"psim/internal/units"
	"psim/results"
)

// setWork compares the throughput of the steps, and finds how their work differs.
func (c *Comparison) setWork(a, b results.Result) {
	c.A.Samples, c.B.Samples = a.StepSamples(), b.StepSamples()
	of := sharedPace(a, b)
	c.ThroughputOf, c.ThroughputDifference = of.unit, Optional(math.NaN())
	if of.rate != nil {
		c.A.Throughput, c.B.Throughput = of.rate(a), of.rate(b)
		c.ThroughputDifference = Optional(Fraction(c.B.Throughput-c.A.Throughput, c.A.Throughput))
	}
	c.WorkDiffers = workDifferences(a, b)
}

// A pace is a throughput that both runs have.
type pace struct {
	unit string
	rate func(results.Result) float64 // nil if there is none
}

// sharedPace returns the throughput in which two runs compare: in tokens if their sequences differ
// in length, otherwise in samples, and without a batch in microbatches.
func sharedPace(a, b results.Result) pace {
	samples := pace{"samples", func(r results.Result) float64 { return r.Throughput.Samples }}
	tokens := pace{"tokens", func(r results.Result) float64 { return r.Throughput.Tokens }}
	both := func(p pace) bool { return p.rate(a) > 0 && p.rate(b) > 0 }
	switch {
	case both(tokens) && (a.SequenceLength != b.SequenceLength || !both(samples)):
		return tokens
	case both(samples):
		return samples
	case a.Throughput == b.Throughput && a.StagesWithTimes() > 0 && b.StagesWithTimes() > 0: // both unknown
		return pace{"microbatches", results.Result.MicrobatchesPerSecond}
	}
	return pace{}
}

// sameSamples reports whether two steps have as many samples, as far as both are known. Those of
// measured runs are means over the steps, and the last step of an epoch may be smaller.
func sameSamples(a, b results.Result) bool {
	allowed := 0.001
	if a.Kind == results.Measured || b.Kind == results.Measured {
		allowed = 0.05
	}
	x, y := a.StepSamples(), b.StepSamples()
	return x == 0 || y == 0 || math.Abs(x-y) <= allowed*min(x, y)
}

func count(n float64) string { return units.FormatCount(int64(math.Round(n))) }

// workDifferences says in which respects the work of the steps differs. It is nil if the work is
// the same, as far as both results say.
func workDifferences(a, b results.Result) (list []string) {
	say := func(form string, x, y any) { list = append(list, fmt.Sprintf(form, x, y)) }
	x, y := a.StepSamples(), b.StepSamples()
	if !sameSamples(a, b) {
		say("A trains on %s samples, B on %s", count(x), count(y))
	}
	timed := a.StagesWithTimes() > 0 && b.StagesWithTimes() > 0
	if n, m := a.Microbatches, b.Microbatches; timed && x == 0 && y == 0 && n != m {
		say("A has %s, B %s", units.Plural(n, "microbatch"), count(float64(m)))
	}
	if n, m := a.SequenceLength, b.SequenceLength; n != m && n > 0 && m > 0 {
		say("sequences have %s tokens in A and %s in B", count(float64(n)), count(float64(m)))
	}
	if n, m := a.Parameters, b.Parameters; n != m && n > 0 && m > 0 {
		say("the network has %s parameters in A and %s in B", units.FormatCount(n), units.FormatCount(m))
	}
	if n, m := a.StagesWithTimes(), b.StagesWithTimes(); n != m && a.SameTimes(b) {
		say("the same [times] are of each of %d stages in A and of %d in B", n, m)
	}
	return list
}
