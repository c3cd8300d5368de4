package calibrate

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An ncclText holds the state of reading text.
type ncclText struct {
	runs    []ncclRun // the last one is being read
	columns []string  // of its rows
	rows    bool      // between the heading and the end of the rows
}

var (
	// mpirunTag matches the tags that mpirun and others put before lines.
	mpirunTag   = regexp.MustCompile(`^(\[[^\]]*\]<std\w+>:\s?|\d+:\s|\[\d+\]\s)`) // srun -l: "3: ", hydra: "[3] "
	ncclWarning = regexp.MustCompile(`^# warning: (.*\S)`)                         // as psim exec writes it
	ncclStart   = regexp.MustCompile(`^#\s*Collective test starting:\s*(\S+)`)
	ncclRank    = regexp.MustCompile(`^#\s+Rank\s+(\d+)\s`)
	ncclFailed  = regexp.MustCompile(`^#\s*(Out of bounds values|Bitwise mismatches)\s*:\s*\d+\s+FAILED`)
	ncclHost    = regexp.MustCompile(`\son\s+(\S+)\s+device\s`)
	ncclEnd     = regexp.MustCompile(`^#\s*(Out of bounds values|Avg bus bandwidth)`)
	ncclWhole   = regexp.MustCompile(`^\s*\d+\s+\d+\s`)
	// ncclGlued matches a row that follows other output on its line: NCCL_DEBUG=INFO of
	// another process may leave a line open.
	ncclGlued  = regexp.MustCompile(`\d+\s+\d+\s+(u?int\d+|half|float|double|bfloat16|f\w*8\w*)\s.*`)
	ncclNumber = regexp.MustCompile(`^\d[\d.]*$`)
)

// readNCCLText reads the runs in a text, and skips all other lines.
func readNCCLText(label string, data []byte) ([]ncclRun, error) {
	var t ncclText
	count := 0
	for line := range strings.Lines(string(data)) {
		count++
		at := fmt.Sprintf("%s:%d", label, count)
		if err := t.read(at, mpirunTag.ReplaceAllString(line, "")); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	return t.runs, nil
}

func (t *ncclText) read(at, line string) error {
	words := strings.Fields(strings.TrimLeft(line, "# "))
	switch start := ncclStart.FindStringSubmatch(line); {
	case start != nil:
		test, err := testNamed(start[1])
		t.begin(test)
		return err
	case ncclRank.MatchString(line):
		rank := ncclRank.FindStringSubmatch(line)[1]
		if len(t.runs) == 0 || len(t.run().rows) > 0 || rank == "0" && t.run().ranks > 0 {
			t.begin(nil)
		}
		if next := strconv.Itoa(t.run().ranks); rank != next {
			return fmt.Errorf("rank %s, where rank %s is next: the number of ranks is unknown; "+
				"were lines lost, or do several processes print into one file?", rank, next)
		}
		t.run().ranks++
		if host := ncclHost.FindStringSubmatch(line); host != nil {
			t.run().addHost(host[1])
		}
	case len(t.runs) > 0 && ncclWarning.MatchString(line):
		t.run().warnings = append(t.run().warnings, ncclWarning.FindStringSubmatch(line)[1])
	case strings.HasPrefix(line, "#") && slices.Contains(words, "size") && slices.Contains(words, "busbw"):
		t.columns, t.rows = words, true
		if slices.Contains(words, "cputime") {
			return errors.New("these are times of the CPU (-C), not of the collectives")
		}
	case ncclFailed.MatchString(line):
		return errors.New("nccl-tests found wrong results: " + brokenCollective)
	case ncclEnd.MatchString(line):
		t.rows = false
	case ncclWhole.MatchString(line) || t.rows && beginsRow(words):
		return t.row(at, words)
	case t.rows && ncclGlued.MatchString(line):
		return t.row(at, strings.Fields(ncclGlued.FindString(line)))
	}
	return nil
}

func (t *ncclText) begin(test *ncclTest) {
	*t = ncclText{runs: append(t.runs, ncclRun{test: test})}
}

func (t *ncclText) run() *ncclRun { return &t.runs[len(t.runs)-1] }

// beginsRow reports whether words are a row, even if one of the first two is garbled.
func beginsRow(words []string) bool {
	return len(words) > 0 && (ncclNumber.MatchString(words[0]) ||
		len(words) > 1 && strings.ContainsAny(words[0][:1], "0123456789") && ncclNumber.MatchString(words[1]))
}

// row reads a row with the columns of the heading.
func (t *ncclText) row(at string, words []string) error {
	if t.columns == nil {
		return errors.New(`a row before the heading "# size count type redop … time algbw busbw"`)
	}
	if len(t.runs) == 0 || t.run().ranks == 0 {
		return errors.New(`a row before the lines "# Rank 0 … on HOST device …", which give the number of ranks`)
	}
	row := ncclRow{at: at}
	var count float64 // unused, but shows that the row is complete
	for _, c := range []struct {
		column string
		value  *float64
	}{{"size", &row.size}, {"count", &count}, {"time", &row.us}, {"algbw", &row.algbw}, {"busbw", &row.busbw}} {
		word, ok := t.cell(words, c.column)
		if !ok {
			return fmt.Errorf("the row has no %s", c.column)
		}
		if err := parseCell(c.column, word, c.value); err != nil {
			return err
		}
	}
	row.redop, _ = t.cell(words, "redop")
	row.root, _ = t.cell(words, "root")
	// Old versions print the largest difference instead of this column.
	if word, ok := t.cell(words, "#wrong"); ok && word != "N/A" {
		if err := parseCell("#wrong", word, &row.wrong); err != nil {
			return err
		}
	}
	t.run().rows = append(t.run().rows, row)
	return nil
}

// cell returns the word of a row in a column; of two such columns, the first is out of
// place.
func (t *ncclText) cell(words []string, column string) (string, bool) {
	i := slices.Index(t.columns, column)
	if i < 0 || i >= len(words) {
		return "", false
	}
	return words[i], true
}

func parseCell(column, word string, into *float64) error {
	x, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return fmt.Errorf("%s = %q: must be a number", column, word)
	}
	*into = x
	return nil
}
