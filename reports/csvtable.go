package reports

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A table reads a CSV file with known columns, row by row. The first error
// stays in err and ends it.
type table struct {
	csv     *csv.Reader
	columns []string
	row     []string
	err     error
}

// newTable reads the header, which must be a list of columns, of which those
// beyond the first required characters may be missing from the end.
func newTable(r io.Reader, columns string, required int) (*table, error) {
	t := &table{csv: csv.NewReader(r)}
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the file is empty; it must start with the line %s", columns)
	}
	if err != nil {
		return nil, csvError(err)
	}
	got := strings.TrimPrefix(strings.Join(header, ","), "\ufeff")
	if len(got) < required || !strings.HasPrefix(columns+",", got+",") {
		return nil, fmt.Errorf("line 1: the header is %.80q; it must be %s", got, columns)
	}
	t.columns = strings.Split(got, ",")
	return t, nil
}

// csvError words an error of encoding/csv like our own.
func csvError(err error) error {
	var parse *csv.ParseError
	switch {
	case !errors.As(err, &parse):
		return err
	case errors.Is(err, csv.ErrFieldCount):
		return fmt.Errorf("line %d: has not as many cells as the header%s", parse.Line, damaged)
	}
	return fmt.Errorf("line %d, column %d: %w%s", parse.Line, parse.Column, parse.Err, damaged)
}

// next moves to the next row, and reports whether there is one and all is
// well.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	row, err := t.csv.Read()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			t.err = csvError(err)
		}
		return false
	}
	t.row = row
	return true
}

// index finds the position of a column, -1 where the file lacks it.
func (t *table) index(column string) int { return slices.Index(t.columns, column) }

// text returns the cell of a column, empty where the file lacks the column.
func (t *table) text(column string) string {
	if i := t.index(column); i >= 0 {
		return t.row[i]
	}
	return ""
}

// fail records an error at a cell of the row, unless there is one already.
func (t *table) fail(column string, err error) {
	if t.err == nil {
		line, _ := t.csv.FieldPos(max(0, t.index(column)))
		t.err = fmt.Errorf("line %d, column %s: %w", line, column, err)
	}
}

// number reads a whole number between two bounds.
func (t *table) number(column string, low, high int64) int64 {
	s := t.text(column)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < low || n > high {
		t.fail(column, fmt.Errorf("%.40q is not a whole number from %d to %d", s, low, high))
		return low
	}
	return n
}

// numberOr reads a number, and takes an empty cell for low.
func (t *table) numberOr(column string, low, high int64) int64 {
	if t.text(column) == "" {
		return low
	}
	return t.number(column, low, high)
}

// optional reads a number up to most, or missing from an empty cell.
func (t *table) optional(column string, most, missing int64) int64 {
	if t.text(column) == "" {
		return missing
	}
	return t.number(column, 0, most)
}

// damaged says what to do about a file that is not as psim writes it.
const damaged = "; the file is damaged: run again what wrote it"
