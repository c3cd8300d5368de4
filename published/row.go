package published

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"psim/internal/formula"
)

// A row is a record of a table in one of its forms, which can be predicted. It is the scope of the
// table's expressions.
type row struct {
	ctx     context.Context
	runs    *predictions
	table   *Study
	records []record
	record
	form
	machine  string            // a [machine] section that replaces the table's, in a fit
	over     []string          // settings KEY=VALUE that replace those of the configuration, in a fit
	changes  []change          // of an alternative, or of a prediction by name
	looked   map[string]string // cells that lookups have added
	settling bool              // the configuration is being written
	failed   bool              // the run was out of memory
}

// forms lists the rows of a table: for every record a row for each form that it has.
func (t *Study) forms(ctx context.Context, runs *predictions) (rows []row, err error) {
	list := t.records()
	series := t.Series
	if series == nil {
		series = []form{{}}
	}
	for _, r := range list {
		for _, form := range series {
			one := row{ctx: ctx, runs: runs, table: t, records: list, record: r, form: form}
			if one.looked, err = one.lookUp(); err != nil {
				return nil, err
			}
			whole, err := one.holds(t.Where)
			if err != nil {
				return nil, err
			}
			has, err := one.holds(form.Where)
			if err != nil {
				return nil, err
			}
			if one.failed, err = one.fails(); err != nil {
				return nil, err
			}
			if whole && has {
				rows = append(rows, one)
			}
		}
	}
	return rows, nil
}

// lookUp returns the cells that the table's lookups add.
func (r row) lookUp() (map[string]string, error) {
	r.looked = map[string]string{}
	for _, l := range r.table.Lookups {
		found, err := l.find(func(column string) (string, error) {
			value, err := r.Value(column)
			return formula.Text(value), err
		})
		if err != nil {
			return nil, err
		}
		maps.Copy(r.looked, found)
	}
	return r.looked, nil
}

// fails reports whether the record is a run that was out of memory.
func (r row) fails() (bool, error) {
	if r.table.Failed == "" {
		return false, nil
	}
	return r.holds(r.table.Failed)
}

// holds evaluates a condition. The empty condition is true.
func (r row) holds(condition string) (bool, error) {
	if condition == "" {
		return true, nil
	}
	return formula.Holds(condition, r)
}

// Value returns the value of a name in an expression: a column of the form, the table, a lookup or the
// data; a key of the configuration; the record's place among all records (line) or in its group (nth),
// or the number of plans of its training (plans); "first." and a column, for a value of the first
// record; a quantity of the prediction; or the name of another prediction, a dot, and a quantity of it.
func (r row) Value(name string) (any, error) {
	for _, columns := range []map[string]string{r.form.Columns, r.table.Columns} {
		if text, ok := columns[name]; ok {
			return formula.Fill(text, r)
		}
	}
	for _, cells := range []map[string]string{r.looked, r.cells} {
		if cell, ok := cells[name]; ok {
			return cell, nil
		}
	}
	switch name {
	case "line":
		return float64(r.line), nil
	case "nth":
		return float64(r.nth), nil
	case "plans":
		return r.plans()
	}
	if column, ok := strings.CutPrefix(name, "first."); ok {
		return r.records[0].text(column), nil
	}
	before, quantity, dotted := strings.Cut(name, ".")
	if other, ok := r.table.Predictions[before]; ok && dotted {
		return r.with(other).Value(quantity)
	}
	if dotted {
		return r.key(name)
	}
	return r.quantity(name)
}

// Call applies a function of the prediction or of another one, or one of psim's rules.
func (r row) Call(name string, arguments []any) (any, error) {
	if before, function, dotted := strings.Cut(name, "."); dotted {
		other, ok := r.table.Predictions[before]
		if !ok {
			return nil, fmt.Errorf("no prediction %s", before)
		}
		return r.with(other).Call(function, arguments)
	}
	if f, ok := rules[name]; ok {
		return f(arguments)
	}
	if f, ok := measures[name]; ok {
		return f(r, arguments)
	}
	return nil, fmt.Errorf("no function %s", name)
}

// with returns the row with a changed configuration.
func (r row) with(c change) row {
	r.changes = append(r.changes[:len(r.changes):len(r.changes)], c)
	return r
}

// plans counts the records of the same training.
func (r row) plans() (any, error) {
	count := 0.
	for _, other := range r.records {
		if other.training() == r.training() {
			count++
		}
	}
	return count, nil
}

// predict returns the published number, the prediction and the classification of the row.
func (r row) predict() (DataPoint, error) {
	var made DataPoint
	var err error
	made.Unit = r.table.Unit
	if made.Label, err = formula.Fill(cmp.Or(r.form.Label, r.table.Label), r); err != nil {
		return made, err
	}
	compare := r.compare
	if r.failed {
		compare = r.judge
	}
	if err := compare(&made); err != nil {
		return made, fmt.Errorf("%s: %w", made.Label, err)
	}
	return made, nil
}

// judge fills in the verdict on memory.
func (r row) judge(made *DataPoint) error {
	p, err := r.prediction(false)
	if err == nil {
		made.Verdict = p.MemoryVerdict
	}
	return err
}

// numbers fills in the published and the predicted number.
func (r row) numbers(made *DataPoint) (err error) {
	if made.Published, err = formula.Number(cmp.Or(r.form.Published, r.table.Published), r); err != nil {
		return err
	}
	made.Predicted, err = formula.Number(r.predicted(), r)
	return err
}

// compare fills in everything except the label.
func (r row) compare(made *DataPoint) (err error) {
	if err = r.numbers(made); err != nil {
		return err
	}
	if made.Used, err = r.used(); err != nil {
		return err
	}
	for text, field := range map[string]*string{
		r.table.Source: &made.Source, r.table.Site: &made.Site, r.table.Guessed: &made.Guessed,
	} {
		if text == "" {
			continue
		}
		if *field, err = formula.Fill(text, r); err != nil {
			return err
		}
	}
	if made.Source != "" {
		p, err := r.prediction(false)
		if err != nil {
			return err
		}
		made.under = p.under
	}
	if r.table.TrainingRuns {
		if err = r.trained(made); err != nil {
			return err
		}
	}
	if r.table.Failed != "" {
		if err = r.judge(made); err != nil {
			return err
		}
	}
	if r.table.TrainingRuns || r.table.Splits {
		if made.Facets, err = r.facets(); err != nil {
			return err
		}
	}
	if made.Alternatives, err = r.alternatives(); err != nil {
		return err
	}
	made.Parts, err = r.parts(*made)
	return err
}

// predicted returns the expression of the prediction.
func (r row) predicted() string { return cmp.Or(r.form.Predicted, r.table.Predicted) }

// used reports whether constants were fitted to the row.
func (r row) used() (bool, error) {
	condition := cmp.Or(r.form.Used, r.table.Used)
	if condition == "" {
		return false, nil
	}
	return formula.Holds(condition, r)
}

// alternatives predicts the row by other explanations.
func (r row) alternatives() (list []Alternative, err error) {
	for _, a := range r.table.Alternatives {
		holds, err := r.holds(a.When)
		if err != nil {
			return nil, err
		}
		if !holds {
			continue
		}
		predicted, err := formula.Number(cmp.Or(a.Predicted, r.predicted()), r.with(change{Set: a.Set}))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		list = append(list, Alternative{a.Name, predicted})
	}
	return list, nil
}

// A compared is the scope of the parts of a row that has been predicted.
type compared struct {
	row
	made DataPoint
	rest float64 // the error without earlier parts
}

// Value adds published, error and rest to the names of the row.
func (c compared) Value(name string) (any, error) {
	switch name {
	case "published":
		return c.made.Published, nil
	case "error":
		return c.made.Error(), nil
	case "rest":
		return c.rest, nil
	}
	return c.row.Value(name)
}

// parts divides the error of a row among its causes.
func (r row) parts(made DataPoint) (list []Part, err error) {
	scope := compared{r, made, made.Error()}
	for _, p := range r.table.Parts {
		holds, err := r.holds(p.When)
		if err != nil {
			return nil, err
		}
		if !holds {
			continue
		}
		share, err := formula.Number(p.Error, scope)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		list = append(list, Part{p.Name, share})
		scope.rest -= share
	}
	return list, nil
}
