package published

import (
	"fmt"
	"math"
	"slices"

	"psim/internal/units"
	"psim/intervals"
)

// residuals lists the errors of leave_out.csv, by the conditions of the rows that the report has replayed.
func (r Report) residuals() (list intervals.Evidence) {
	for _, t := range r.Tables {
		left := map[string]DataPoint{}
		for _, row := range leftRows(t.Name) {
			left[row.Label] = row
		}
		for _, row := range t.Replayed {
			of, ok := left[row.Label]
			if !ok || row.Source == "" || t.Apart != "" {
				continue
			}
			log := math.Log(of.Published / of.Predicted)
			if row.isRate() {
				log = -log
			}
			list = append(list, intervals.Residual{
				Conditions: row.under, Source: row.Source, Table: t.Name, Training: row.Training, Log: log,
			})
		}
	}
	return list
}

// isRate reports whether the row's number falls where the step takes longer.
func (r DataPoint) isRate() bool { return r.Unit != "s" && r.Unit != "ms" && r.Unit != "h" }

// cover adds which of the training runs lie in the intervals that other sources give them, for the tables of
// the report.
func (r *Report) cover() {
	held := slices.DeleteFunc(intervals.Published().Hold(), func(h intervals.Held) bool {
		return !slices.ContainsFunc(r.Tables, func(t StudyResult) bool { return t.Name == h.Table })
	})
	if len(held) == 0 {
		return
	}
	coverage := intervals.Sum(held)
	r.Coverage = &coverage
	for i := range r.Tables {
		inside, rows := 0., 0.
		for _, h := range held {
			if h.Table != r.Tables[i].Name || h.Missing != "" {
				continue
			}
			if rows++; h.Inside {
				inside++
			}
		}
		if rows > 0 {
			inside /= rows
			r.Tables[i].Coverage = &inside
		}
	}
}

// inside prints the coverage of a table, or "-" if no row has an interval.
func (t StudyResult) inside() string {
	if t.Coverage == nil {
		return "-"
	}
	return units.FormatPercent(*t.Coverage)
}

// coverageLines says in sentences how many training runs lie in the intervals that other sources give them.
func (r Report) coverageLines() []string {
	if r.Coverage == nil {
		return nil
	}
	c := r.Coverage
	without := ""
	if c.Missing > 0 {
		without = fmt.Sprintf(" No interval for %s: too few other sources have such a device, precision or network.",
			units.Plural(c.Missing, "row"))
	}
	return []string{fmt.Sprintf("Intervals for %.0f %%, made without the row's source: they hold %s of the rows, in "+
		"the mean over sources (90 %% of bootstraps over sources: %s to %s).%s Their interval score (Winkler, of "+
		"logarithms) is %.2f; one interval for all has %.2f.", 100*intervals.Nominal, units.FormatPercent(c.Mean),
		units.FormatPercent(c.Low), units.FormatPercent(c.High), without, c.Score, c.Constant)}
}

// insideOf prints the coverage of a source, or "–" if none of its rows has an interval.
func (r Report) insideOf(source string) string {
	if r.Coverage == nil {
		return "–"
	}
	i := slices.IndexFunc(r.Coverage.Sources, func(s intervals.SourceCoverage) bool { return s.Source == source })
	if i < 0 || r.Coverage.Sources[i].Missing == r.Coverage.Sources[i].Rows {
		return "–"
	}
	return units.FormatPercent(r.Coverage.Sources[i].Inside)
}
