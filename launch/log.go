package launch

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"psim/launch/keyed"
	"psim/launch/logged"
)

// Lines of Megatron's log. Launchers put the rank before them.
var (
	dumpBegin = regexp.MustCompile(`-{8,} arguments -{8,}`)
	dumpEnd   = regexp.MustCompile(`-{8,} end of arguments -{8,}`)
	dumpLine  = regexp.MustCompile(`(?:^|\s)(\w+) \.{2,} (.*)$`)
)

// isLog reports whether data is a log.
func isLog(data []byte) bool { return isMegatron(data) || logged.Read(data) != nil }

// programs are what psim calls programs that print logs.
var programs = map[string]string{
	"megatron": "Megatron-LM", "torchtitan": "torchtitan", "deepspeed": "DeepSpeed", "trainer": "transformers' Trainer",
	"mlperf": "MLPerf", "golden": "Megatron-LM's golden values",
}

// severalRuns names two programs whose lines are in one log, but do not train together; "" for the log of one run.
// DeepSpeed trains for Megatron-DeepSpeed and for the Trainer; another program prints MLPerf's lines.
func severalRuns(data []byte) string {
	var names []string
	if isMegatron(data) {
		names = append(names, programs["megatron"])
	}
	for _, name := range logged.Programs(data) {
		besides := name == "mlperf" || name == "deepspeed" && !slices.Contains(names, programs["torchtitan"])
		if !besides {
			names = append(names, programs[name])
		}
	}
	if len(names) < 2 {
		return ""
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// OneRun refuses a log that has lines of several runs.
func OneRun(log Input) error {
	if names := severalRuns(log.Data); names != "" {
		return fmt.Errorf("%s: has lines of %s, which do not train together: cut it into a log of each, and name one",
			log.Label, names)
	}
	return nil
}

// isMegatron reports whether data has arguments as Megatron prints them, or iterations.
func isMegatron(data []byte) bool {
	for text := range linesWith(data, dumpMark) {
		if dumpBegin.Match(text) {
			return true
		}
	}
	for text := range linesWith(data, stepMark) {
		if _, ok := readLine(text); ok {
			return true
		}
	}
	return false
}

// dumpMark is in the line before arguments.
const dumpMark = "- arguments -"

// lastDump returns a log from the arguments of its last start on, and a log without arguments whole.
func lastDump(data []byte) []byte {
	for end := len(data); ; {
		at := bytes.LastIndex(data[:end], []byte(dumpMark))
		if at < 0 {
			return data
		}
		end = bytes.LastIndexByte(data[:at], '\n') + 1
		if line, _, _ := bytes.Cut(data[end:], []byte("\n")); dumpBegin.Match(line) {
			return data[end:]
		}
	}
}

// readDump reads the arguments that a log prints, the last ones if it was started several times; nil if
// there are none.
func readDump(log Input) (*arguments, error) {
	dump := lastDump(log.Data)
	first, _, _ := bytes.Cut(dump, []byte("\n"))
	if !dumpBegin.Match(first) {
		return nil, nil
	}
	a := &arguments{label: log.Label, values: map[string]string{}}
	lines := bufio.NewScanner(bytes.NewReader(dump))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		if dumpEnd.MatchString(line) {
			break
		}
		if m := dumpLine.FindStringSubmatch(line); m != nil {
			a.values[m[1]] = strings.TrimSpace(m[2])
		}
	}
	if !a.has("num_layers") || !a.has("hidden_size") {
		return nil, fmt.Errorf(
			"%s: its arguments have no num_layers and hidden_size; is the log cut off?",
			log.Label,
		)
	}
	for text := range linesWith(log.Data, "padded vocab (size: ") {
		if size := paddedVocabulary.FindSubmatch(text); size != nil && a.integer("padded_vocab_size") == 0 {
			a.values["padded_vocab_size"] = string(size[1])
		}
	}
	return a, nil
}

// paddedVocabulary is the line in which a log says how large the table of words became.
var paddedVocabulary = regexp.MustCompile(`padded vocab \(size: \d+\) with \d+ dummy tokens \(new size: (\d+)\)`)

// positive reads a number above 0.
func positive(text []byte) float64 {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || f < 0 {
		return 0
	}
	return f
}

// Readable reports whether data is a log or a script, rather than a configuration.
func Readable(name string, data []byte) bool {
	script := strings.HasSuffix(name, ".sh") || bytes.HasPrefix(data, []byte("#!")) ||
		bytes.Contains(data, []byte("--num-layers")) || bytes.Contains(data, []byte("torchtitan.train")) ||
		bridgeKeys(Input{Data: data}) != nil
	return isLog(data) || script || keyed.Readable(data) || bytes.Contains(data, []byte("MODEL_ARGS:"))
}

// Lacks says what a log lacks that would tell how long a step takes; "" for a file that is no such log.
func Lacks(data []byte) string {
	if isLog(data) {
		return ""
	}
	return logged.Lacks(data)
}

// IsNetwork reports whether data is the config.json of a network, which other files train.
func IsNetwork(data []byte) bool { return keyed.IsNetwork(data) }

// Steps returns what a log says of its steps; nil if it says nothing.
func Steps(data []byte) *LoggedSteps {
	if l := logged.Read(data); l != nil && !isMegatron(data) {
		return l.Steps
	}
	return measure(data, &arguments{})
}
