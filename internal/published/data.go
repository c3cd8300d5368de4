package published

import (
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"time"
)

//go:embed testdata/*.csv
var data embed.FS

// A record is a line of a table's data, by column.
type record struct {
	file  string
	line  int
	cells map[string]string
}

// records reads a file of testdata: lines of comment, a line of column names,
// and rows. The files are part of the program, so that a mistake in one panics;
// a test reads all.
func records(file string) []record {
	f, err := data.Open("testdata/" + file)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	reader := csv.NewReader(f)
	reader.Comment = '#'
	lines, err := reader.ReadAll()
	if err != nil || len(lines) < 2 {
		panic(fmt.Sprintf("testdata/%s: %d lines, %v", file, len(lines), err))
	}
	var list []record
	for i, line := range lines[1:] {
		r := record{file, i + 1, map[string]string{}}
		for c, name := range lines[0] {
			r.cells[name] = line[c]
		}
		list = append(list, r)
	}
	return list
}

// text returns the cell of a column.
func (r record) text(column string) string {
	cell, ok := r.cells[column]
	if !ok {
		panic(fmt.Sprintf("testdata/%s: no column %q", r.file, column))
	}
	return cell
}

// number returns a cell as a number.
func (r record) number(column string) float64 {
	return cell(r, column, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
}

// count returns a cell as a whole number.
func (r record) count(column string) int { return cell(r, column, strconv.Atoi) }

// milliseconds returns a cell with a number of them.
func (r record) milliseconds(column string) time.Duration {
	return cell(r, column, func(text string) (time.Duration, error) { return time.ParseDuration(text + "ms") })
}

// cell parses the cell of a column.
func cell[T any](r record, column string, parse func(string) (T, error)) T {
	v, err := parse(r.text(column))
	if err != nil {
		panic(fmt.Sprintf("testdata/%s, row %d, %s: %v", r.file, r.line, column, err))
	}
	return v
}
