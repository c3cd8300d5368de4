package published

import (
	"encoding/csv"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A record is a line of a table's data, by column.
type record struct {
	file  string
	line  int // from 1, without comments and column names
	nth   int // from 1, among the records with the same values of the table's Group
	cells map[string]string
}

// records reads a file of testdata: lines of comment, a line of column names, and rows. The files are
// part of the program, so a mistake in one of them panics; a test reads all files.
func records(file string) []record {
	reader := csv.NewReader(strings.NewReader(read("testdata/" + file)))
	reader.Comment = '#'
	lines, err := reader.ReadAll()
	if err != nil || len(lines) < 2 {
		panic(fmt.Sprintf("testdata/%s: %d lines, %v", file, len(lines), err))
	}
	var list []record
	for i, line := range lines[1:] {
		r := record{file: file, line: i + 1, cells: map[string]string{}}
		for c, name := range lines[0] {
			r.cells[name] = line[c]
		}
		list = append(list, r)
	}
	return list
}

// records returns the records of the table, with their places in their groups.
func (t *Study) records() []record {
	list := t.rows
	if list == nil {
		list = records(t.Data)
	}
	seen := map[string]int{}
	for i := range list {
		group := list[i].group(t.Group)
		seen[group]++
		list[i].nth = seen[group]
	}
	return list
}

// group joins the values of some columns.
func (r record) group(columns []string) string {
	var values []string
	for _, column := range columns {
		values = append(values, r.text(column))
	}
	return strings.Join(values, "\n")
}

func (r record) text(column string) string {
	cell, ok := r.cells[column]
	if !ok {
		panic(fmt.Sprintf("testdata/%s: no column %q", r.file, column))
	}
	return cell
}

func (r record) number(column string) float64 {
	x, err := strconv.ParseFloat(r.text(column), 64)
	if err != nil {
		panic(fmt.Sprintf("testdata/%s, row %d, %s: %v", r.file, r.line, column, err))
	}
	return x
}

func (r record) count(column string) int { return int(r.number(column)) }

// A lookup adds cells of another list of rows to a record: the cells of the first row that matches the
// record, or empty cells. An empty cell of a row matches any value.
type lookup struct {
	File string              `toml:"file"` // of testdata
	Rows []map[string]string `toml:"rows"` // or here
	// Equal, Prefix and From are columns of both: the record's text equals the row's, begins with
	// it, or does not come before it.
	Equal  []string `toml:"equal"`
	Prefix []string `toml:"prefix"`
	From   []string `toml:"from"`
	// Take lists the columns to add, by their new names. Without it all other columns are added.
	Take map[string]string `toml:"take"`
}

// find returns the cells that a record gets.
func (l lookup) find(value func(column string) (string, error)) (map[string]string, error) {
	rows := l.Rows
	if l.File != "" {
		for _, r := range records(l.File) {
			rows = append(rows, r.cells)
		}
	}
	matched := slices.Concat(l.Equal, l.Prefix, l.From)
	own := map[string]string{}
	for _, column := range matched {
		var err error
		if own[column], err = value(column); err != nil {
			return nil, err
		}
	}
	found := map[string]string{}
	for _, row := range rows { // without a match, the columns exist but are empty
		for column := range l.taken(row, matched) {
			found[column] = ""
		}
	}
	if i := slices.IndexFunc(rows, func(row map[string]string) bool { return l.matches(row, own) }); i >= 0 {
		maps.Copy(found, l.taken(rows[i], matched))
	}
	return found, nil
}

// taken returns the cells of a row that a record may get.
func (l lookup) taken(row map[string]string, matched []string) map[string]string {
	cells := map[string]string{}
	for name, column := range l.Take {
		cells[name] = row[column]
	}
	for column, cell := range row {
		if l.Take == nil && !slices.Contains(matched, column) {
			cells[column] = cell
		}
	}
	return cells
}

// matches reports whether a row matches a record's values.
func (l lookup) matches(row, own map[string]string) bool {
	differs := func(columns []string, same func(own, row string) bool) bool {
		return slices.ContainsFunc(columns, func(c string) bool { return row[c] != "" && !same(own[c], row[c]) })
	}
	return !differs(l.Equal, func(own, row string) bool { return own == row }) &&
		!differs(l.Prefix, strings.HasPrefix) &&
		!differs(l.From, func(own, row string) bool { return own >= row })
}
