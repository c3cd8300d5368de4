package published

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"psim/internal/formula"
)

// A machineFit says how the machine of a table is fitted to its used rows.
type machineFit struct {
	Head      string     `toml:"head"` // of the file
	Constants []constant `toml:"constants"`
}

// A constant is a fitted number of a machine.
type constant struct {
	Key    string  `toml:"key"`
	Start  float64 `toml:"start"` // of the search
	Digits int     `toml:"digits"`
	Unit   string  `toml:"unit"`
}

// Fit writes everything that is fitted to published rows into a folder: a table of the constants of
// stacks, the machines of tables, and columns of their data. It takes ten minutes.
func Fit(folder string) error {
	if err := fitStacks(folder); err != nil {
		return err
	}
	for i := range tables() {
		t := &tables()[i]
		if t.Fit != nil {
			best := descend(len(t.Fit.Constants), 25, func(x []float64) float64 { return t.misfit(t.Fit.machine(x)) })
			if err := os.WriteFile(filepath.Join(folder, t.Machine), []byte(t.Fit.machine(best)), 0o644); err != nil {
				return err
			}
		}
		if t.Solve != nil {
			text, err := t.solved()
			if err != nil {
				return fmt.Errorf("%s: %w", t.Name, err)
			}
			if err := os.WriteFile(filepath.Join(folder, t.Data), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// machine writes a machine file in which every constant is its start times a factor. x has the
// logarithms of the factors.
func (f machineFit) machine(x []float64) string {
	text := strings.TrimPrefix(f.Head, "\n")
	for i, c := range f.Constants {
		value := strconv.FormatFloat(c.Start*math.Exp(x[i]), 'f', c.Digits, 64)
		if c.Unit != "" {
			value = strconv.Quote(value + c.Unit)
		}
		text += c.Key + " = " + value + "\n"
	}
	return text
}

// misfit sums the absolute logarithms of predicted over published, for the used rows on a machine.
func (t *Study) misfit(machine string) (sum float64) {
	ctx := context.Background()
	rows, err := t.forms(ctx, &predictions{})
	if err != nil {
		return math.MaxFloat64
	}
	off := make([]float64, len(rows))
	err = atOnce(ctx, len(rows), func(i int) error {
		rows[i].machine = machine
		used, err := rows[i].used()
		if err == nil && used {
			off[i], err = rows[i].logarithm()
		}
		return err
	})
	if err != nil { // a constant that is out of range
		return math.MaxFloat64
	}
	for _, e := range off {
		sum += math.Abs(e)
	}
	return sum
}

// logarithm returns the logarithm of predicted over published.
func (r row) logarithm() (float64, error) {
	var made DataPoint
	if err := r.numbers(&made); err != nil {
		return 0, err
	}
	return math.Log1p(made.Error()), nil
}

// A solve says how a column of a table's data is fitted: to the smallest number for which a condition
// holds for a record. All records of its group get this number.
type solve struct {
	Column string `toml:"column"`
	Of     string `toml:"of"`     // expression: records that are solved; "" means all
	Enough string `toml:"enough"` // expression: holds for all numbers above some number
	// The number lies between From and To. If From is 0, the range is halved until it is as small
	// as the last digit; otherwise the range of the logarithm is halved, to a part in ten thousand.
	From   float64 `toml:"from"`
	To     float64 `toml:"to"`
	Digits int     `toml:"digits"`
}

// solved returns the table's data with the fitted columns.
func (t *Study) solved() ([]byte, error) {
	list := t.records()
	for i := range list {
		for _, s := range t.Solve {
			r := row{ctx: context.Background(), runs: &predictions{}, table: t, records: list, record: list[i]}
			var err error
			if r.looked, err = r.lookUp(); err != nil {
				return nil, err
			}
			of, err := r.holds(s.Of)
			if err != nil {
				return nil, err
			}
			if !of {
				continue
			}
			x, err := s.least(r)
			if err != nil {
				return nil, err
			}
			for _, other := range list {
				if other.line == r.line || s.Of != "" && other.group(t.Group) == r.group(t.Group) {
					other.cells[s.Column] = formula.Text(math.Round(x*math.Pow10(s.Digits)) / math.Pow10(s.Digits))
				}
			}
		}
	}
	return t.write(list)
}

// least finds the number for a record.
func (s solve) least(r row) (float64, error) {
	low, high := s.From, s.To
	for s.From == 0 && high-low > math.Pow10(-s.Digits) || s.From > 0 && high/low > 1.0001 {
		middle := math.Sqrt(low * high)
		if s.From == 0 {
			middle = (low + high) / 2
		}
		tried := r
		tried.cells = maps.Clone(r.cells)
		tried.cells[s.Column] = formula.Text(middle)
		enough, err := formula.Holds(s.Enough, tried)
		if err != nil {
			return 0, err
		}
		if enough {
			high = middle
		} else {
			low = middle
		}
	}
	return high, nil
}

// write returns the table's file with other records.
func (t *Study) write(list []record) ([]byte, error) {
	var text bytes.Buffer
	var columns []string
	for line := range strings.Lines(read("testdata/" + t.Data)) {
		if !strings.HasPrefix(line, "#") {
			columns = strings.Split(strings.TrimSpace(line), ",")
			break
		}
		text.WriteString(line)
	}
	w := csv.NewWriter(&text)
	lines := [][]string{columns}
	for _, r := range list {
		var cells []string
		for _, column := range columns {
			cells = append(cells, r.text(column))
		}
		lines = append(lines, cells)
	}
	err := w.WriteAll(slices.Clip(lines))
	return text.Bytes(), err
}
