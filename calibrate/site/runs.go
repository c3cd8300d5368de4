// Package site fits what a cluster's own runs say of it: the speed of its network, the clock of its devices and how
// much its nodes differ in speed. Read reads the runs, New fits the constants, each drawn towards the catalog's, and
// predicts every run again with constants that have not seen it.
package site

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"psim/internal/csvfile"
	"psim/internal/units"
)

// A RunOfSite is a measured run: a line of the file.
type RunOfSite struct {
	Line   int      `json:"line"`
	Config string   `json:"config"`
	Sets   []string `json:"set"` // KEY=VALUE
	Step   float64  `json:"measured_s"`
}

// Limits of a file: of a line in bytes, and of the runs.
const (
	longestLine = 1 << 16
	mostRuns    = 1000
)

// Read reads runs: a CSV file with the columns config and step_time, and a column for each further key of the
// configuration. An empty cell leaves the configuration's value. Lines that begin with # are comments.
func Read(r io.Reader) (list []RunOfSite, err error) {
	reader := csv.NewReader(csvfile.LimitLines(r, longestLine))
	reader.Comment, reader.TrimLeadingSpace = '#', true
	head, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("is empty; it needs the columns config and step_time, and a line for each run")
	}
	if err != nil {
		return nil, plain(err)
	}
	head = slices.Clone(head)
	head[0] = strings.TrimPrefix(head[0], "\ufeff") // as spreadsheets begin files
	if err := checkHead(head); err != nil {
		return nil, err
	}
	for {
		cells, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, plain(err)
		}
		line, _ := reader.FieldPos(0)
		run, err := runOf(head, cells)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		run.Line = line
		if list = append(list, run); len(list) > mostRuns {
			return nil, fmt.Errorf("has more than %d runs; leave the least telling ones out", mostRuns)
		}
	}
	if len(list) < 2 {
		return nil, fmt.Errorf("has %s; a constant takes two", units.Plural(len(list), "run"))
	}
	return list, contradictions(list)
}

// plain returns an error of a CSV file with its line first.
func plain(err error) error {
	if e := new(csv.ParseError); errors.As(err, &e) {
		return fmt.Errorf("line %d: %w", e.Line, e.Err)
	}
	return err
}

// checkHead refuses names of columns that are missing, given twice, or no keys.
func checkHead(head []string) error {
	if len(head) == 1 && strings.Contains(head[0], ";") {
		return errors.New("its columns are separated by semicolons; separate them by commas")
	}
	for _, needed := range []string{"config", "step_time"} {
		if !slices.Contains(head, needed) {
			return fmt.Errorf("has no column %s; the first line names config, step_time and any keys of the "+
				"configuration", needed)
		}
	}
	for i, name := range head {
		switch {
		case slices.Contains(head[:i], name):
			return fmt.Errorf("has two columns %s; remove one", name)
		case name != "config" && name != "step_time" && !strings.Contains(name, "."):
			return fmt.Errorf("column %q: must be config, step_time or a dotted key, such as batch.micro", name)
		}
	}
	return nil
}

// runOf reads a line.
func runOf(head, cells []string) (run RunOfSite, err error) {
	for i, name := range head {
		cell := strings.TrimSpace(cells[i])
		switch {
		case name == "config":
			if run.Config = cell; cell == "" {
				return run, errors.New("config: is empty; name a file, an example or a preset")
			}
		case name == "step_time":
			step, err := units.ParseDuration(cell)
			if err == nil && step <= 0 {
				err = errors.New("must be more than 0")
			}
			if err != nil {
				return run, fmt.Errorf("step_time: %w; write for example 12.3s", err)
			}
			run.Step = time.Duration(step).Seconds()
		case cell != "":
			run.Sets = append(run.Sets, name+"="+cell)
		}
	}
	return run, nil
}

// agree is how far apart steps of equal settings may be, as a fraction.
const agree = 0.1

// contradictions returns an error that names two runs with the same settings whose steps are far apart.
func contradictions(runs []RunOfSite) error {
	for i, a := range runs {
		for _, b := range runs[:i] {
			if a.same(b) && math.Max(a.Step, b.Step) > (1+agree)*math.Min(a.Step, b.Step) {
				return fmt.Errorf("lines %d and %d have the same settings and steps of %s and %s; remove the one that "+
					"was disturbed, or add the key in which they differ", b.Line, a.Line, units.FormatSeconds(b.Step),
					units.FormatSeconds(a.Step))
			}
		}
	}
	return nil
}

// same reports whether two runs have the same settings.
func (r RunOfSite) same(other RunOfSite) bool {
	return r.Config == other.Config && slices.Equal(r.Sets, other.Sets)
}
