package intervals

import (
	_ "embed" // residuals.csv
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// file is written by make leave-out, and held to the published tables by a test.
//
//go:embed residuals.csv
var file string

// head begins the file of residuals.
const head = "# Errors of predicted step times of published training runs, as logarithms of measured over " +
	"predicted, with constants\n# that have not seen any run of the source: published/testdata/leave_out.csv by " +
	"conditions. Written by make leave-out.\n"

var columns = []string{
	"source", "table", "training", "stack", "chip", "scans", "bits", "products", "log",
}

// Published returns the residuals of all published runs.
var Published = sync.OnceValue(func() Evidence {
	e, err := read(file)
	if err != nil {
		panic("residuals.csv: " + err.Error()) // part of the program; a test reads it
	}
	return e
})

// Fitted returns the model of all published runs.
var Fitted = sync.OnceValue(func() ErrorModel { return Published().Model() })

// read parses a file of residuals.
func read(text string) (e Evidence, err error) {
	reader := csv.NewReader(strings.NewReader(text))
	reader.Comment, reader.FieldsPerRecord = '#', len(columns)
	lines, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	for _, cells := range lines[min(1, len(lines)):] {
		r := Residual{Source: cells[0], Table: cells[1], Training: cells[2]}
		r.Stack, r.Chip = cells[3], cells[4]
		r.Scans = cells[5] == "true"
		if r.Bits, err = strconv.Atoi(cells[6]); err != nil {
			return nil, err
		}
		for i, x := range []*float64{&r.Products, &r.Log} {
			if *x, err = strconv.ParseFloat(cells[7+i], 64); err != nil {
				return nil, err
			}
		}
		e = append(e, r)
	}
	return e, nil
}

// CSV writes the residuals as residuals.csv.
func (e Evidence) CSV() string {
	var b strings.Builder
	b.WriteString(head)
	w := csv.NewWriter(&b)
	w.Write(columns) // into memory
	for _, r := range e {
		w.Write([]string{r.Source, r.Table, r.Training, r.Stack, r.Chip, strconv.FormatBool(r.Scans),
			strconv.Itoa(r.Bits), fmt.Sprintf("%.3f", r.Products), fmt.Sprintf("%.5f", r.Log)})
	}
	w.Flush()
	return b.String()
}
