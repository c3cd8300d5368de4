// Package csvfile reads and writes the CSV files of results: rows of known columns, with
// errors that name the line and the column.
package csvfile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Reader reads a CSV file with known columns, row by row. The first error stays in Err and
// ends the reading.
type Reader struct {
	csv     *csv.Reader
	columns []string
	row     []string
	Err     error
}

// NewReader reads the header, which must be the list of columns. Columns beyond the first
// required characters of the list may be missing.
func NewReader(r io.Reader, columns string, required int) (*Reader, error) {
	t := &Reader{csv: csv.NewReader(LimitLines(r, longestLine))}
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

// csvError words an error of encoding/csv like psim's own.
func csvError(err error) error {
	var parse *csv.ParseError
	switch {
	case !errors.As(err, &parse):
		return err
	case errors.Is(err, csv.ErrFieldCount):
		return fmt.Errorf("line %d: the number of cells differs from the header%s", parse.Line, Damaged)
	}
	return fmt.Errorf("line %d, column %d: %w%s", parse.Line, parse.Column, parse.Err, Damaged)
}

// Next moves to the next row. It returns false after the last row, or after an error.
func (t *Reader) Next() bool {
	if t.Err != nil {
		return false
	}
	row, err := t.csv.Read()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			t.Err = csvError(err)
		}
		return false
	}
	t.row = row
	return true
}

// Index returns the position of a column, or -1 if the file lacks it.
func (t *Reader) Index(column string) int { return slices.Index(t.columns, column) }

// Text returns the cell of a column. It is empty if the file lacks the column.
func (t *Reader) Text(column string) string {
	if i := t.Index(column); i >= 0 {
		return t.row[i]
	}
	return ""
}

// Fail records an error at a cell of the row, unless there is an earlier error.
func (t *Reader) Fail(column string, err error) {
	if t.Err == nil {
		line, _ := t.csv.FieldPos(max(0, t.Index(column)))
		t.Err = fmt.Errorf("line %d, column %s: %w", line, column, err)
	}
}

// Number reads a whole number between two bounds.
func (t *Reader) Number(column string, low, high int64) int64 {
	s := t.Text(column)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < low || n > high {
		t.Fail(column, fmt.Errorf("%.40q is not a whole number from %d to %d", s, low, high))
		return low
	}
	return n
}

// NumberOr reads a number, or low from an empty cell.
func (t *Reader) NumberOr(column string, low, high int64) int64 {
	if t.Text(column) == "" {
		return low
	}
	return t.Number(column, low, high)
}

// Optional reads a number up to most, or missing from an empty cell.
func (t *Reader) Optional(column string, most, missing int64) int64 {
	if t.Text(column) == "" {
		return missing
	}
	return t.Number(column, 0, most)
}

// Damaged says what to do about a file that is not as psim writes it.
const Damaged = "; the file is damaged: run again what wrote it"
