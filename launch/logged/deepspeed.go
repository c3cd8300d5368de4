package logged

import (
	"bytes"
	"regexp"
	"strconv"

	"psim/internal/units"
	"psim/launch/understood"
)

// Lines of DeepSpeed. Versions before 0.7.3 print the running average alone.
var (
	speedLine = regexp.MustCompile(`(?:global_step=(\d+)|\b\d+/(\d+)), (?:RunningAvgSamplesPerSec=[\d.einf-]+, ` +
		`CurrSamplesPerSec|SamplesPerSec)=([\d.e+-]+)(?:, MemAllocated=[\d.]+GB, MaxMemAllocated=([\d.]+)GB)?`)
	speedBatch = regexp.MustCompile(`"train_batch_size":\s*([\d.e+]+)`)
	speedWorld = regexp.MustCompile(`\bworld_size \.+ (\d+)`)
)

// readDeepSpeed reads a log of DeepSpeed's.
func readDeepSpeed(data []byte) *Log {
	const start = "DeepSpeedEngine configuration:"
	last := from(data, start)
	list, peak := speedReports(last)
	if len(list) == 0 {
		return nil
	}
	l := &Log{Config: object(last, "json = "), Steps: &understood.LoggedSteps{
		Program: "deepspeed", Lines: len(list), Allocated: peak, Stamped: median(each(list)),
		Rate: &understood.PrintedRate{
			Counts: "CurrSamplesPerSec", Unit: understood.SamplesPerSecond, Value: median(rates(list)),
		},
	}}
	s := l.Steps
	if !bytes.Contains(last, []byte(s.Rate.Counts)) {
		s.Rate.Counts = "SamplesPerSec"
		s.Note("this version prints the mean of all steps so far, not that of the last one")
	}
	if m := speedBatch.FindSubmatch(l.Config); m != nil {
		s.Batch = int(number(string(m[1])))
	}
	if m := speedWorld.FindSubmatch(last); m != nil {
		l.Devices = whole(string(m[1]))
	}
	if bytes.Contains(last, []byte("fwd_microstep")) || bytes.Contains(last, []byte("forward_microstep")) {
		s.Note("wall_clock_breakdown is on: it waits for the device after every pass, and so makes steps longer; " +
			"turn it off to measure")
	}
	if s.Batch > 0 {
		s.StepTime, s.Rate.Source = float64(s.Batch)/s.Rate.Value, true
		s.Lost = between(list, s.StepTime)
	}
	s.How = s.Rate.Counts + ", the median of " + units.Plural(len(list), "line")
	return l
}

// leastRate is of a sample in eleven days: what is slower did not train.
const leastRate = 1e-6

// speedReports returns the reports of the last start, and the highest peak of memory.
func speedReports(data []byte) (list []report, peak int64) {
	for line := range linesWith(data, "SamplesPerSec=") {
		m := speedLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		rate, err := strconv.ParseFloat(m[3], 64)
		if err != nil || rate < leastRate || rate > understood.MostSize {
			continue
		}
		r := report{step: whole(m[1] + m[2]), at: stamped(line), rate: rate}
		if n := len(list); n > 0 && r.step < list[n-1].step { // another start, or another epoch
			list = nil
		}
		list = append(list, r)
		peak = max(peak, gibibytes(number(m[4])))
	}
	return list, peak
}
