package published

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"psim/configs"
	"psim/configs/catalog"
	"psim/internal/formula"
)

// A stackFit says which constants of a stack on a chip are fitted to which rows. Rows of several stacks
// fit what these have in common, as the rate of a chip.
type stackFit struct {
	Stack string   `toml:"stack"`
	Chip  string   `toml:"chip"`
	Keys  []string `toml:"keys"`
	// Also lists chips for which the constants were taken from this one. Instead selects rows that they are
	// fitted to if no row of the fit's own is left, on any of the chips. Without has their values if there are
	// none either, where these are not the device's own.
	Also    []string `toml:"also"`
	Stacks  []string `toml:"stacks"` // others that have these constants on the chips
	Without settings `toml:"without"`
	Of      []fitted `toml:"rows"`
	Instead []fitted `toml:"instead"`

	rows, instead []row
}

// A fitted selects used rows of a table on the chip.
type fitted struct {
	Table string   `toml:"table"`
	Where string   `toml:"where"` // expression: which of the rows; "" means all
	Set   settings `toml:"set"`   // replace settings of the rows
	// Machine is a [machine] section of that chip that replaces the table's.
	Machine string `toml:"machine"`
}

// stackFits reads the fits of stack_fits.toml.
func stackFits() ([]stackFit, error) {
	var file struct {
		Fits []stackFit `toml:"fits"`
	}
	if err := catalog.Decode(read("testdata/stack_fits.toml"), &file); err != nil {
		return nil, err
	}
	for i := range file.Fits {
		f := &file.Fits[i]
		for _, of := range f.Of {
			rows, err := of.list(true, f.Chip)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", f.Stack, f.Chip, err)
			}
			f.rows = append(f.rows, rows...)
		}
		for _, of := range f.Instead {
			rows, err := of.list(false, append(f.Also, f.Chip)...)
			if err != nil {
				return nil, fmt.Errorf("%s on %s: %w", f.Stack, f.Chip, err)
			}
			f.instead = append(f.instead, rows...)
		}
	}
	return file.Fits, nil
}

// list returns the rows on some chips, those alone that are marked as used if used is set. A section of its own is of
// the first chip.
func (f fitted) list(used bool, chips ...string) ([]row, error) {
	all, err := table(f.Table).forms(context.Background(), &predictions{})
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, r := range all {
		r.machine = f.Machine
		r = r.with(change{Set: f.Set})
		marked, err := r.used()
		if err != nil {
			return nil, err
		}
		holds, err := r.holds(f.Where)
		if err != nil {
			return nil, err
		}
		device := any(chips[0])
		if f.Machine == "" {
			if device, err = r.Value("machine.device"); err != nil {
				return nil, err
			}
		}
		if (marked || !used) && holds && slices.Contains(chips, chipOf(formula.Text(device))) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// holds reports whether a stack has the constants on a chip.
func (f stackFit) holds(stack, chip string) bool {
	return (f.Stack == stack || slices.Contains(f.Stacks, stack)) && (f.Chip == chip || slices.Contains(f.Also, chip))
}

// sites counts the clusters of the rows. A constant that stands on one may be that cluster's.
func (f stackFit) sites() (int, error) {
	of := map[string]bool{}
	for _, r := range f.rows {
		site, err := formula.Fill(r.table.Site, r)
		if err != nil {
			return 0, err
		}
		of[site] = true
	}
	return len(of), nil
}

// A constantOf is the catalog's value of a key, a number with a unit such as 2.02ms.
type constantOf struct {
	key, unit string
	value     float64
}

var number = regexp.MustCompile(`^"?([0-9.]+)([a-zµ]*)"?$`)

// catalog reads the constants: a stack's own, those of the rows' site, or the device's rate.
func (f stackFit) catalog() (list []constantOf, err error) {
	for _, key := range f.Keys {
		c := constantOf{key: key}
		if at, err := f.rows[0].key(key); err == nil { // a table has its site's
			c.value, c.unit = constantIn(fmt.Sprint(at))
		}
		for _, s := range configs.Stacks() {
			if s.Name != f.Stack {
				continue
			}
			for _, set := range slices.Concat(s.Sets, s.Devices[f.Chip], s.Mixtures) {
				if k, value, _ := strings.Cut(set, " = "); k == key {
					c.value, c.unit = constantIn(value)
				}
			}
		}
		if c.value == 0 { // the stack leaves it to the device
			if c.value, err = f.device(); err != nil {
				return nil, err
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// constantIn reads a number with its unit.
func constantIn(text string) (value float64, unit string) {
	parts := number.FindStringSubmatch(text)
	value, _ = strconv.ParseFloat(parts[1], 64)
	return value, parts[2]
}

// device returns the share of the peak that products in 16 bits reach on the device of the catalog.
func (f stackFit) device() (float64, error) {
	name, err := f.rows[0].Value("machine.device")
	if err != nil {
		return 0, err
	}
	for _, d := range configs.Catalog().Devices {
		if d.Name == name {
			return d.Efficiency.BF16, nil
		}
	}
	return 0, fmt.Errorf("no device %s", name)
}

// misfit averages the absolute logarithms of predicted over published, table by table. Every constant
// is the catalog's value times a factor; x has the logarithms of the factors.
func (f stackFit) misfit(constants []constantOf, x []float64) float64 {
	var sets []string
	for i, c := range constants {
		sets = append(sets, c.key+"="+c.at(x[i]))
	}
	off := make([]float64, len(f.rows))
	err := atOnce(context.Background(), len(f.rows), func(i int) (err error) {
		r := f.rows[i]
		r.runs, r.over = &predictions{}, sets
		off[i], err = r.logarithm()
		return err
	})
	if err != nil { // a constant that is out of range
		return math.MaxFloat64
	}
	sum, rows := map[string]float64{}, map[string]float64{}
	for i, r := range f.rows {
		sum[r.table.Name] += math.Abs(off[i])
		rows[r.table.Name]++
	}
	var mean float64
	for name := range sum {
		mean += sum[name] / rows[name] / float64(len(sum))
	}
	return mean
}

// at writes the constant times a factor, which is given by its logarithm.
func (c constantOf) at(x float64) string { return fmt.Sprintf("%.4g%s", c.value*math.Exp(x), c.unit) }

// constantsHead begins stack_constants.csv.
const constantsHead = "# The constants of stacks that are fitted, as the catalogs have them and where the rows are " +
	"met best, and how far\n# predictions of these rows are off on average (of logarithms). Written by make fit.\n"

// fitStacks writes a table of the constants: the values of the catalogs and those that fit their rows
// best.
func fitStacks(folder string) error {
	var text bytes.Buffer
	text.WriteString(constantsHead)
	w := csv.NewWriter(&text)
	lines := [][]string{{"stack", "chip", "key", "catalog", "fitted", "rows", "sites", "off_catalog", "off_fitted"}}
	fits, err := stackFits()
	if err != nil {
		return err
	}
	for _, f := range fits {
		constants, err := f.catalog()
		if err != nil {
			return err
		}
		off := func(x []float64) float64 { return f.misfit(constants, x) }
		best := descend(len(constants), 12, off)
		before, after := fmt.Sprintf("%.4f", off(make([]float64, len(constants)))), fmt.Sprintf("%.4f", off(best))
		sites, err := f.sites()
		if err != nil {
			return err
		}
		rows := strconv.Itoa(len(f.rows))
		for i, c := range constants {
			line := []string{f.Stack, f.Chip, c.key, c.at(0), c.at(best[i]), rows, strconv.Itoa(sites), before, after}
			lines = append(lines, line)
		}
	}
	if err := w.WriteAll(lines); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "stack_constants.csv"), text.Bytes(), 0o644)
}
