package logged

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"psim/internal/units"
	"psim/launch/understood"
)

// Lines of torchtitan, of all its versions. The first ones called tps wps.
var (
	titanStep  = regexp.MustCompile(`\bstep:\s*(\d+)\s.*?memory:\s*([\d.]+)GiB\([\d.]+%\)\s+(?:tps|wps): ([\d,]+)`)
	titanSizes = regexp.MustCompile(`with local batch size (\d+), (?:global batch size (\d+), )?` +
		`(?:gradient accumulation steps (\d+), )?sequence length (\d+)`)
	titanPeak = regexp.MustCompile(`Peak FLOPS used for computing MFU: ([\d.e+]+)`)
)

// titanStart is what torchtitan prints before its first step, and titanDumps are the words before its configuration.
const titanStart = "with local batch size "

var titanDumps = []string{"Running with configs: ", "Running with args: "}

// readTitan reads a log of torchtitan.
func readTitan(data []byte) *Log {
	last := from(data, titanStart)
	all, left, memory := titanReports(last)
	if len(all) == 0 {
		return nil
	}
	counted := all[min(1, len(all)-1):] // kernels are compiled in the first step
	l := &Log{Steps: &understood.LoggedSteps{
		Program: "torchtitan", Lines: len(counted), Left: left + len(all) - len(counted), Reserved: memory,
		Rate: &understood.PrintedRate{
			Unit: understood.TokensPerSecond, Counts: "tps", Value: median(rates(counted)),
		},
	}}
	s := l.Steps
	s.How = "tps, the median of " + units.Plural(len(counted), "line")
	for line := range linesWith(last, titanStart) {
		if m := titanSizes.FindStringSubmatch(line); m != nil {
			s.Batch, s.Tokens = whole(m[2]), whole(m[4])
			l.Micro, l.Rounds = whole(m[1]), max(1, whole(m[3]))
		}
	}
	if list := each(all); len(list) > 0 {
		s.StepTime, s.How = median(list), "the median of "+units.Plural(len(list), "interval")+" between lines"
		s.Lost = between(all, s.StepTime)
	}
	s.Note(titanUtilization(data))
	for _, word := range titanDumps {
		if text := object(data, word); text != nil {
			l.Config = text
		}
	}
	return l
}

// titanUtilization says what a printed utilization is of, where it is not of the device's peak.
func titanUtilization(data []byte) string {
	for line := range linesWith(data, "Peak FLOPS used") {
		if m := titanPeak.FindStringSubmatch(line); m != nil {
			if peak, err := strconv.ParseFloat(m[1], 64); err == nil && peak == a100 {
				return "its mfu is of 312 TFLOP/s, the peak of an A100, which torchtitan takes where it does not " +
					"know the device"
			}
			return ""
		}
	}
	return ""
}

// a100 is the peak that torchtitan takes for devices that it does not know (torchtitan/tools/utils.py).
const a100 = 312e12

// titanReports returns the reports of steps, how many lines are of earlier starts, and the highest memory that is
// reserved. Several ranks may print the same step.
func titanReports(data []byte) (list []report, left int, memory int64) {
	for line := range linesWith(data, "GiB(") {
		m := titanStep.FindStringSubmatch(line)
		if m == nil || strings.Contains(line, "validate step") {
			continue
		}
		r := report{step: whole(m[1]), at: stamped(line), rate: number(m[3])}
		memory = max(memory, gibibytes(number(m[2])))
		if r.rate == 0 {
			continue
		}
		if n := len(list); n > 0 && r.step <= list[n-1].step {
			if r.step >= list[0].step && slices.ContainsFunc(list[max(0, n-mostRanks):], func(of report) bool {
				return of.step == r.step
			}) {
				continue // of another rank
			}
			left, list = left+n, nil // another start
		}
		list = append(list, r)
	}
	return list, left, memory
}

// mostRanks is how many steps ranks are apart that write into one log.
const mostRanks = 8
