package logged

import (
	"bytes"
	"encoding/json"
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
	titanParameters = regexp.MustCompile(`\bModel .*size: ([\d,]+) total parameters`)
	// The mesh of devices, by its dimensions, or in later versions by degrees; ep and etp divide others.
	titanMesh    = regexp.MustCompile(`Building \d+-D device mesh with \[[^\]]*\], \[([\d, ]+)\]`)
	titanDegrees = regexp.MustCompile(
		`Building device mesh with parallelism: (pp=\d+, dp_replicate=\d+, dp_shard=\d+, cp=\d+, tp=\d+)`)
	titanRank = regexp.MustCompile(`^\[rank(\d+)\]:`)
	digits    = regexp.MustCompile(`\d+`)
	titanPeak = regexp.MustCompile(`Peak FLOPS used for computing MFU: ([\d.e+]+)`)
)

// titanStart is what torchtitan prints before its first step, and titanDumps are the words before its configuration.
const titanStart = "with local batch size "

var titanDumps = []string{"Running with configs: ", "Running with args: "}

// readTitan reads a log of torchtitan.
func readTitan(data []byte) *Log {
	last := from(data, titanStart)
	all, left, memory := titanReports(last)
	if len(all) == 0 || alone(all) {
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
	misstamped(all, s)
	s.Note(titanUtilization(data))
	for _, word := range titanDumps {
		if text := object(data, word); text != nil {
			l.Config = text
		}
		l.Mixed = l.Mixed || bytes.Contains(data, []byte(word+"{"))
	}
	l.Mixed = l.Mixed && !json.Valid(l.Config)
	if l.Mixed {
		l.Config = nil
	}
	for line := range linesWith(data, " total parameters") {
		if m := titanParameters.FindStringSubmatch(line); m != nil {
			s.Parameters = int64(whole(m[1]))
		}
	}
	l.titanDevices(data)
	return l
}

// titanDevices takes the devices from the line about their mesh, or else from the highest rank that prints.
func (l *Log) titanDevices(data []byte) {
	for line := range linesWith(data, "device mesh with ") {
		for _, pattern := range []*regexp.Regexp{titanMesh, titanDegrees} {
			if m := pattern.FindStringSubmatch(line); m != nil {
				l.Devices = 1
				for _, n := range digits.FindAllString(m[1], -1) {
					l.Devices = min(l.Devices*max(1, whole(n)), mostDevices)
				}
			}
		}
	}
	if l.Devices > 0 {
		return
	}
	for line := range linesWith(data, "[rank") {
		if m := titanRank.FindStringSubmatch(line); m != nil && whole(m[1]) < mostDevices {
			l.Devices = max(l.Devices, whole(m[1])+1)
		}
	}
	l.Least = true
	if l.Devices == 1 { // programs often let rank 0 alone print
		l.Devices = 0
	}
}

// mostDevices limits what a log may claim.
const mostDevices = 1 << 20

// alone reports whether a step 1 is all that there is: kernels are compiled in it.
func alone(list []report) bool { return len(list) == 1 && list[0].step == 1 }

// firstStepAlone reports whether a log of torchtitan has step 1 and no other.
func firstStepAlone(data []byte) bool {
	list, _, _ := titanReports(from(data, titanStart))
	return alone(list)
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
