// Package logged reads what torchtitan, DeepSpeed and transformers' Trainer print while they train.
package logged

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"psim/internal/units"
	"psim/launch/understood"
)

// A Log is what a log says.
type Log struct {
	Steps *understood.LoggedSteps
	// Config is the configuration that the program printed when it started, as a file of its own; nil without one.
	Config []byte
	// Devices is how many there are, where the log says it; 0 where it does not.
	Devices int
	// Least says that there may be more devices: other ranks may print elsewhere.
	Least bool
	// Mixed says that the printed configuration cannot be read, as where lines of several ranks are mixed.
	Mixed bool
	// Micro and Rounds are the samples that a device takes at once and how many times a step, where the log says it.
	Micro, Rounds int
}

// readers read the logs of a program each, those of other forms last.
func readers() []func([]byte) *Log {
	return []func([]byte) *Log{readTitan, readDeepSpeed, readTrainer, readMLPerf, readGolden}
}

// Read reads a log; nil if it is of none of these programs. Of a log with several starts the last one counts.
func Read(data []byte) *Log {
	for _, read := range readers() {
		if l := read(data); l != nil {
			if !l.Least {
				l.Steps.Devices = l.Devices
			}
			return l
		}
	}
	return nil
}

// Programs names the programs that a text has lines about steps of.
func Programs(data []byte) (list []string) {
	for _, read := range readers() {
		if l := read(data); l != nil {
			list = append(list, l.Steps.Program)
		}
	}
	return list
}

// Lacks says what a log of these programs lacks that would tell how long a step takes, and what makes the program print
// it; "" for other texts.
func Lacks(data []byte) string {
	has := func(word string) bool { return bytes.Contains(data, []byte(word)) }
	switch {
	case has("{'loss': ") || has(trainerStart) || has(`"log_history"`):
		return "the Trainer's lines of losses have no times: its bar of progress has (disable_tqdm=False), as has " +
			"its summary at the end (train_runtime)"
	case has(goldenMark) && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")):
		return "its iteration-time has no two numbers (nan): the test has not timed its steps"
	case has(eventMark):
		return "its lines of MLPerf have no block of steps with a train_step_time, a throughput or two times"
	case has("SamplesPerSec="):
		return "its SamplesPerSec is 0 or nan, as while DeepSpeed has not timed a step: let it run longer"
	case has("DeepSpeedEngine configuration:"):
		return "DeepSpeed prints SamplesPerSec only at every steps_per_print-th step: set steps_per_print to 10 in " +
			"its JSON"
	case has("[titan] ") && firstStepAlone(data):
		return "only the first step is printed, in which torchtitan compiles kernels and which does not count: let " +
			"it run to the second line (metrics.log_freq)"
	case has("[titan] "):
		return "torchtitan prints tps only at every metrics.log_freq-th step: set it to 10"
	}
	return ""
}

// colors are the codes by which a terminal changes colors.
var colors = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// linesWith yields the lines of a text that contain a word, without colors. Only on these are patterns tried. A
// carriage return, by which a bar of progress begins its line again, ends a line as well.
func linesWith(data []byte, word string) iter.Seq[string] {
	const most = 1 << 16 // of a line of these programs
	return func(yield func(string) bool) {
		for len(data) > 0 {
			at := bytes.Index(data, []byte(word))
			if at < 0 {
				return
			}
			from, end := bytes.LastIndexAny(data[max(0, at-most):at], "\r\n")+1+max(0, at-most), len(data)
			if n := bytes.IndexAny(data[at:min(len(data), at+most)], "\r\n"); n >= 0 {
				end = at + n
			} else if at+most < end {
				end = at + most
			}
			if !yield(colors.ReplaceAllString(string(data[from:end]), "")) {
				return
			}
			data = data[end:]
		}
	}
}

// from returns a text from the last place of a word on; whole where the word is not in it.
func from(data []byte, word string) []byte {
	if at := bytes.LastIndex(data, []byte(word)); at >= 0 {
		return data[at:]
	}
	return data
}

// stamp matches the time before a message of Python's logging.
var stamp = regexp.MustCompile(`(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[,.](\d{3})`)

// stamped returns the time of a line; zero without one.
func stamped(line string) time.Time {
	m := stamp.FindStringSubmatch(line)
	if m == nil {
		return time.Time{}
	}
	at, err := time.Parse("2006-01-02 15:04:05.000", m[1]+"."+m[2])
	if err != nil {
		return time.Time{}
	}
	return at
}

// number reads digits with commas between thousands, and a point; 0 for other texts.
func number(text string) float64 {
	x, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	if err != nil || x < 0 || math.IsInf(x, 0) || x > understood.MostSize {
		return 0
	}
	return x
}

// whole reads a whole number; 0 for other texts.
func whole(text string) int {
	n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	if err != nil || n < 0 || n > understood.MostSize {
		return 0
	}
	return n
}

// A report is a line about a step, or about the steps since the report before.
type report struct {
	step int
	at   time.Time
	rate float64 // printed, above 0
}

// each returns the seconds of a step between successive reports, as their stamps have it; those of no use are left out.
func each(list []report) (seconds []float64) {
	for i := 1; i < len(list); i++ {
		before, r := list[i-1], list[i]
		if n := r.step - before.step; n > 0 && !before.at.IsZero() && r.at.After(before.at) {
			seconds = append(seconds, r.at.Sub(before.at).Seconds()/float64(n))
		}
	}
	return seconds
}

// misstamped notes how many successive reports have stamps that stand still or go backwards.
func misstamped(list []report, s *understood.LoggedSteps) {
	wrong, all := 0, 0
	for i := 1; i < len(list); i++ {
		before, r := list[i-1], list[i]
		if r.step > before.step && !before.at.IsZero() && !r.at.IsZero() {
			if all++; !r.at.After(before.at) {
				wrong++
			}
		}
	}
	if wrong > 0 {
		s.Note(fmt.Sprintf("the time stamps of %d of %s between lines stand still or go backwards: a clock was set, "+
			"or lines were put together; these are left out", wrong, units.Plural(all, "interval")))
	}
}

// between returns the seconds from the first report to the last that no step took, if every step takes so long.
func between(list []report, step float64) float64 {
	if len(list) < 2 || list[0].at.IsZero() || list[len(list)-1].at.IsZero() {
		return 0
	}
	first, last := list[0], list[len(list)-1]
	lost := last.at.Sub(first.at).Seconds() - float64(last.step-first.step)*step
	if lost < max(1, 0.02*step*float64(last.step-first.step)) { // medians and means differ by as much
		return 0
	}
	return lost
}

// median returns the median of numbers; 0 of none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Clone(list)
	slices.Sort(list)
	n := len(list)
	return (list[n/2] + list[(n-1)/2]) / 2
}

// rates returns what reports print.
func rates(list []report) (all []float64) {
	for _, r := range list {
		all = append(all, r.rate)
	}
	return all
}

// gibibytes turns a number of GiB, which programs print as GB or GiB, into bytes.
func gibibytes(x float64) int64 {
	if x > 1<<20 {
		return 0
	}
	return int64(x * (1 << 30))
}
