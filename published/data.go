package published

import (
	"context"
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"time"

	"psim"
	"psim/configs"
	"psim/results"
)

//go:embed testdata/*.csv
var data embed.FS

// A record is a line of a table's data, by column.
type record struct {
	file  string
	line  int // of the rows, from 1
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

// odd reports whether the row is the first, the third and so on, to which a machine is
// fitted where every second row is.
func (r record) odd() bool { return r.line%2 == 1 }

func (r record) text(column string) string {
	cell, ok := r.cells[column]
	if !ok {
		panic(fmt.Sprintf("testdata/%s: no column %q", r.file, column))
	}
	return cell
}

func (r record) number(column string) float64 {
	return cell(r, column, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
}

func (r record) count(column string) int { return cell(r, column, strconv.Atoi) }

// duration returns a cell with a number of ns, us or ms.
func (r record) duration(column, unit string) time.Duration {
	return cell(r, column, func(text string) (time.Duration, error) { return time.ParseDuration(text + unit) })
}

// milliseconds returns a cell with a number of them.
func (r record) milliseconds(column string) time.Duration { return r.duration(column, "ms") }

func cell[T any](r record, column string, parse func(string) (T, error)) T {
	v, err := parse(r.text(column))
	if err != nil {
		panic(fmt.Sprintf("testdata/%s, row %d, %s: %v", r.file, r.line, column, err))
	}
	return v
}

// simulate predicts a configuration in TOML.
func simulate(config string) (psim.Simulation, error) {
	return predict(configs.Parse("table", []byte(config)))
}

// estimated predicts a configuration without its trace.
func estimated(c *configs.Config, err error) (results.Result, error) {
	if err != nil {
		return results.Result{}, err
	}
	p, err := psim.Estimate(context.Background(), c)
	if err != nil {
		return results.Result{}, err
	}
	return p.Result, nil
}

func predict(c *configs.Config, err error) (psim.Simulation, error) {
	if err != nil {
		return psim.Simulation{}, err
	}
	p, err := psim.Predict(context.Background(), c)
	if err != nil {
		return psim.Simulation{}, err
	}
	return p.Simulation, nil
}
