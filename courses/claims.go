package courses

import (
	"fmt"
	"io"
	"math"
	"strings"

	"psim/internal/units"
	"psim/results"
)

// A claim is what runs of an assignment are to show: that one trains faster than another.
type claim struct {
	Says           string
	Faster, Slower string // runs
	// Unseen says why psim's own workers cannot show it; empty if they can.
	Unseen string
}

// The verdicts on a claim.
const (
	holds    = "holds"
	fails    = "does not hold"
	notToSee = "cannot be seen"
)

// A Claim is something that an assignment's runs are to show, and whether the measured ones do.
type Claim struct {
	Says    string `json:"says"`
	Verdict string `json:"verdict"` // "holds", "does not hold" or "cannot be seen"
	Why     string `json:"why"`
}

// claim judges what the assignment claims by what was measured.
func (r *Reproduction) claim() {
	if r.MeasuredOn == "" {
		return
	}
	for _, c := range r.course.Claims {
		verdict, why := r.judge(c)
		r.Claims = append(r.Claims, Claim{Says: c.Says, Verdict: verdict, Why: why})
	}
}

// judge says whether a claim holds, and why, or why that cannot be seen.
func (r *Reproduction) judge(c claim) (verdict, why string) {
	faster, slower := r.find(c.Faster), r.find(c.Slower)
	for _, run := range []*ReproducedRun{faster, slower} {
		switch {
		case run == nil:
			return notToSee, "it was not run"
		case run.measured == nil:
			return notToSee, run.Name + " was not measured: it " + run.LeftOut
		case run.shared():
			return notToSee, run.sharing()
		}
	}
	a, b := rateOf(*faster.Measured), rateOf(*slower.Measured)
	why = fmt.Sprintf("%s trains %s samples/s and %s %s, a speedup of %.2f",
		faster.Name, a, slower.Name, b, a.mean/b.mean)
	disturbed := faster.Measured.Disturbed || slower.Measured.Disturbed
	switch {
	case c.Unseen != "":
		return notToSee, c.Unseen + " (" + why + ")"
	case math.Abs(a.mean-b.mean) <= 2*math.Hypot(a.error(), b.error()):
		return notToSee, "the difference may be chance: " + why
	case a.mean > b.mean:
		return holds, why
	case disturbed:
		return notToSee, "something else ran on the machine: " + why
	}
	return fails, why
}

// A measuredRate is a mean of some epochs, or steps, with their deviation.
type measuredRate struct {
	mean, deviation float64 // in samples per second
	number          int
}

// rateOf returns the rate of a measured result: of its epochs, or else of its steps.
func rateOf(r results.Result) measuredRate {
	if e := r.Epochs; e != nil && e.ThroughputStd != nil && e.Number > 1 {
		return measuredRate{e.Throughput.Samples, e.ThroughputStd.Samples, e.Number}
	}
	mean := r.Throughput.Samples
	return measuredRate{mean, mean * r.StepTimeStd / r.StepTime, len(r.Steps)}
}

func (m measuredRate) String() string {
	return units.FormatPerSecond(m.mean) + " ± " + units.FormatPerSecond(m.deviation)
}

// error returns the standard error of the mean.
func (m measuredRate) error() float64 { return m.deviation / math.Sqrt(float64(max(1, m.number))) }

// writeClaims prints what the assignment's runs are to show, and whether they do.
func (r *Reproduction) writeClaims(w io.Writer) {
	if len(r.Claims) == 0 {
		return
	}
	fmt.Fprintf(w, "\nclaims of the assignment on this machine, measured%s\n", r.spent())
	for _, c := range r.Claims {
		fmt.Fprintf(w, "%s: %s; %s\n", c.Verdict, c.Says, c.Why)
	}
}

// claimsSection writes the same for the sheet.
func (r *Reproduction) claimsSection(b *strings.Builder) {
	if len(r.Claims) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## What this machine shows\n\nMeasured%s, with the same samples an epoch in every run.\n\n",
		r.spent())
	for _, c := range r.Claims {
		says := strings.ToUpper(c.Says[:1]) + c.Says[1:]
		fmt.Fprintf(b, "- %s: **%s**; %s.\n", says, c.Verdict, c.Why)
	}
}
