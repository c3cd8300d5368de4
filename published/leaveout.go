package published

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"psim/configs"
	"psim/costmodel"
	"psim/internal/formula"
)

// The files of what is left out: constants without a source's rows, and the source's rows with them.
const (
	leftConstantsFile = "leave_out_constants.csv"
	leftRowsFile      = "leave_out.csv"
)

// A leftConstant is a constant of a stack on a chip, fitted without the rows of a source. If no row is
// left, it is the device's or the kernels' own.
type leftConstant struct {
	source, key string
	text        string // the value, with its unit
	fit         *stackFit
	rows        int // that it was fitted to
}

// LeaveOut fits the constants of stacks again without each source in turn, and predicts the source's rows
// with them. It writes the constants and the rows into a folder. It takes two minutes.
func LeaveOut(folder string) error {
	var constants []leftConstant
	fits, err := stackFits()
	if err != nil {
		return err
	}
	runs, err := runsBySource()
	if err != nil {
		return err
	}
	for _, of := range runs {
		for i := range fits {
			left, err := fits[i].without(of.source)
			if err != nil {
				return err
			}
			constants = append(constants, left...)
		}
	}
	file := filepath.Join(folder, leftConstantsFile)
	if err := writeCSV(file, leftConstantsHead, constantLines(constants)); err != nil {
		return err
	}
	lines := [][]string{{"source", "site", "table", "row", "published", "predicted"}}
	for _, of := range runs {
		points, err := of.leftOut(context.Background(), constants)
		if err != nil {
			return err
		}
		for i, p := range points {
			lines = append(lines, []string{of.source, p.Site, of.rows[i].table.Name, p.Label,
				fmt.Sprintf("%.6g", p.Published), fmt.Sprintf("%.6g", p.Predicted)})
		}
	}
	return writeCSV(filepath.Join(folder, leftRowsFile), leftRowsHead, lines)
}

const (
	leftConstantsHead = "# The constants of stacks, fitted again without the rows of a source; " +
		"rows is how many are left. With none, a\n" +
		"# constant is the device's or the kernels' own. Written by make leave-out.\n"
	leftRowsHead = "# Training runs, predicted with the constants of leave_out_constants.csv: " +
		"no constant of a stack has seen any row of\n" +
		"# its source. Written by make leave-out.\n"
)

func constantLines(constants []leftConstant) [][]string {
	lines := [][]string{{"source", "stack", "chip", "key", "value", "rows"}}
	for _, c := range constants {
		lines = append(lines, []string{c.source, c.fit.Stack, c.fit.Chip, c.key, c.text, strconv.Itoa(c.rows)})
	}
	return lines
}

func writeCSV(path, head string, lines [][]string) error {
	var text bytes.Buffer
	text.WriteString(head)
	if err := csv.NewWriter(&text).WriteAll(lines); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// sourceRuns holds the training runs of a source.
type sourceRuns struct {
	source string
	rows   []row
}

// runsBySource lists the training runs that count in the mean over sources, by source.
func runsBySource() (list []sourceRuns, err error) {
	runs := &predictions{}
	for i := range tables() {
		t := &tables()[i]
		if t.Source == "" || t.Apart != "" {
			continue
		}
		rows, err := t.forms(context.Background(), runs)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			source, err := r.source()
			if err != nil {
				return nil, err
			}
			k := slices.IndexFunc(list, func(s sourceRuns) bool { return s.source == source })
			if k < 0 {
				k, list = len(list), append(list, sourceRuns{source: source})
			}
			list[k].rows = append(list[k].rows, r)
		}
	}
	return list, nil
}

// source returns the row's source.
func (r row) source() (string, error) { return formula.Fill(r.table.Source, r) }

// without lists rows that are not of a source.
func without(all []row, source string) (rows []row, err error) {
	for _, r := range all {
		of, err := r.source()
		if err != nil {
			return nil, err
		}
		if of != source {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// left lists the rows that constants are fitted to without a source, and whether they are others than with it.
func (f *stackFit) left(source string) (rows []row, others bool, err error) {
	if rows, err = without(f.rows, source); err != nil || len(rows) == len(f.rows) {
		return rows, false, err
	}
	if len(rows) == 0 {
		rows, err = without(f.instead, source)
	}
	return rows, true, err
}

// without fits the constants without the rows of a source. It returns nil if that leaves all rows.
func (f *stackFit) without(source string) (list []leftConstant, err error) {
	rest := *f
	var others bool
	if rest.rows, others, err = f.left(source); err != nil || !others {
		return nil, err
	}
	if len(rest.rows) == 0 {
		return f.unfitted(source)
	}
	constants, err := f.catalog()
	if err != nil {
		return nil, err
	}
	best := descend(len(constants), 12, func(x []float64) float64 { return rest.misfit(constants, x) })
	for i, c := range constants {
		list = append(list, leftConstant{source: source, key: c.key, fit: f, text: c.at(best[i]), rows: len(rest.rows)})
	}
	return list, nil
}

// unfitted lists the constants if no row is left: those that the fit names, and else its device's.
func (f *stackFit) unfitted(source string) (list []leftConstant, err error) {
	for _, key := range slices.Sorted(maps.Keys(f.Without)) {
		list = append(list, leftConstant{source: source, key: key, fit: f, text: fmt.Sprint(f.Without[key])})
	}
	name, err := f.rows[0].Value("machine.device")
	if err != nil {
		return nil, err
	}
	devices := configs.Catalog().Devices
	i := slices.IndexFunc(devices, func(d costmodel.Device) bool { return d.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no device %s", name)
	}
	own := map[string]float64{
		"machine.compute.efficiency":     devices[i].Efficiency.BF16,
		"machine.compute.efficiency_fp8": devices[i].Efficiency.FP8,
		"machine.compute.efficiency_fp4": devices[i].Efficiency.FP4,
		"machine.compute.attention":      devices[i].Attention,
	}
	for _, key := range f.Keys {
		if _, named := f.Without[key]; named {
			continue
		}
		if own[key] == 0 {
			return nil, fmt.Errorf("%s on %s: %s has no value then; name it in without", f.Stack, f.Chip, key)
		}
		list = append(list, leftConstant{source: source, key: key, fit: f, text: fmt.Sprintf("%.4g", own[key])})
	}
	return list, nil
}

// leftOut predicts the source's rows with the constants that have not seen them.
func (of sourceRuns) leftOut(ctx context.Context, constants []leftConstant) ([]DataPoint, error) {
	points := make([]DataPoint, len(of.rows))
	err := atOnce(ctx, len(of.rows), func(i int) error {
		r := of.rows[i]
		stack, err := r.key("train.stack")
		if err != nil {
			stack = "" // of an example
		}
		device, err := r.key("machine.device")
		if err != nil {
			device = ""
		}
		chip := chipOf(formula.Text(device))
		for _, c := range constants {
			if c.source == of.source && c.fit.holds(formula.Text(stack), chip) {
				r.over = append(r.over, c.key+"="+c.text)
			}
		}
		points[i], err = r.predict()
		return err
	})
	return points, err
}

// leftRows lists the training runs of a table as leave_out.csv has them.
func leftRows(table string) (points []DataPoint) {
	for _, r := range records(leftRowsFile) {
		if r.text("table") == table {
			points = append(points, DataPoint{
				Label: r.text("row"), Source: r.text("source"), Site: r.text("site"),
				Published: r.number("published"), Predicted: r.number("predicted"),
			})
		}
	}
	return points
}
