package published

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"psim/internal/units"
	"psim/intervals"
	"psim/reports/picture"
)

// A Report holds tables that have been replayed.
type Report struct {
	Tables []StudyResult `json:"tables"`
	// Sources are the errors of training runs by source; Headline is the mean over them, if there are
	// any, with today's constants; LeftOut is the mean with constants that have not seen the source.
	Sources  []SourceError `json:"sources,omitempty"`
	Headline *Headline     `json:"headline,omitempty"`
	LeftOut  *Headline     `json:"left_out,omitempty"`
	// Coverage says how many training runs lie in the intervals that other sources give them.
	Coverage *intervals.Coverage `json:"coverage,omitempty"`
}

// A StudyResult is a table that has been replayed. Errors are fractions of the published numbers. The
// mean, the median and the worst are those of absolute errors, over the rows that no constant was fitted
// to.
type StudyResult struct {
	Name        string  `json:"name"`
	Rows        int     `json:"rows"`     // of the table
	Compared    int     `json:"compared"` // rows that count in the errors
	MeanError   float64 `json:"mean_error"`
	MedianError float64 `json:"median_error"`
	WorstError  float64 `json:"worst_error"`
	WorstRow    string  `json:"worst_row"`
	// AllMean and AllWorst are over all rows, including those that were used.
	AllMean  float64 `json:"all_rows_mean_error"`
	AllWorst float64 `json:"all_rows_worst_error"`
	Sites    int     `json:"sites,omitempty"` // clusters that its training runs were measured on
	// Coverage is the share of its training runs that lie in the intervals that other sources give them, of
	// those that get one.
	Coverage   *float64    `json:"coverage,omitempty"`
	Apart      string      `json:"apart,omitempty"` // why they are in no mean over sources
	Fitted     bool        `json:"fitted"`
	FittedFrom string      `json:"fitted_from,omitempty"`
	DeviceFrom string      `json:"device_from,omitempty"`
	Title      string      `json:"title"`
	Paper      string      `json:"paper"`
	Place      string      `json:"place"`
	Claim      string      `json:"claim,omitempty"`
	Note       string      `json:"note,omitempty"`
	Figure     string      `json:"figure"`
	Orders     []PlanOrder `json:"orders,omitempty"` // of plans for one training
	// Splits divide the errors of training runs by classes.
	Splits   []ClassError `json:"splits,omitempty"`
	Replayed []DataPoint  `json:"replayed"`
	// Failed are training runs that ran out of memory: they have a verdict and no numbers.
	Failed []DataPoint `json:"failed,omitempty"`
}

// Replay predicts all rows of tables, several at a time, until it is interrupted.
func Replay(ctx context.Context, tables []Study) (Report, error) {
	runs := &predictions{}
	var all []row
	for i := range tables {
		rows, err := tables[i].forms(ctx, runs)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", tables[i].Name, err)
		}
		all = append(all, rows...)
	}
	predicted := make([]DataPoint, len(all))
	err := atOnce(ctx, len(all), func(i int) (err error) {
		if predicted[i], err = all[i].predict(); err != nil {
			err = fmt.Errorf("%s: %w", all[i].table.Name, err)
		}
		return err
	})
	if err != nil {
		return Report{}, err
	}
	report := Report{Tables: []StudyResult{}}
	for i := range tables {
		var rows, failed []DataPoint
		for k := range all {
			switch {
			case all[k].table != &tables[i]:
			case all[k].failed:
				failed = append(failed, predicted[k])
			default:
				rows = append(rows, predicted[k])
			}
		}
		result, err := tables[i].result(rows)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", tables[i].Name, err)
		}
		result.Failed = failed
		report.Tables = append(report.Tables, result)
	}
	report.Sources, report.Headline = report.bySource()
	report.leaveOut()
	report.cover()
	return report, nil
}

// atOnce calls do for 0 to n − 1 on all cores, in this order, until a call fails. Its error is that of
// the first failing call, whatever the number of cores.
func atOnce(ctx context.Context, n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, n)
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for !failed.Load() && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = do(i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}

// result sums up the rows of a table.
func (t *Study) result(rows []DataPoint) (StudyResult, error) {
	r := StudyResult{
		Name: t.Name, Title: t.Title, Figure: t.Figure, Paper: string(t.Paper), Place: string(t.Place),
		Fitted: t.Fitted != "", FittedFrom: string(t.Fitted), DeviceFrom: string(t.Device),
		Claim: string(t.Claim), Note: string(t.Note), Apart: string(t.Apart), Sites: sites(rows),
		Rows: len(rows), Splits: splits(rows), Orders: orders(rows), Replayed: rows,
	}
	return r, r.summarize()
}

// summarize computes the errors of the rows that were not used.
func (t *StudyResult) summarize() error {
	var off []float64
	for _, row := range t.Replayed {
		e := math.Abs(row.Error())
		if math.IsNaN(e) || math.IsInf(e, 0) {
			return fmt.Errorf("row %s: predicted %v and published %v have no relative error",
				row.Label, row.Predicted, row.Published)
		}
		t.AllMean += e / float64(t.Rows)
		t.AllWorst = max(t.AllWorst, e)
		if row.Used {
			continue
		}
		if e >= t.WorstError {
			t.WorstError, t.WorstRow = e, row.Label
		}
		t.MeanError += e
		off = append(off, e)
	}
	n := len(off)
	if n == 0 {
		return fmt.Errorf("no row is left to compare with")
	}
	t.Compared, t.MeanError, t.MedianError = n, t.MeanError/float64(n), units.Median(off)
	return nil
}

// FigureNames returns the file names of the scatter plots of tables.
func FigureNames(tables []Study) (names []string) {
	for _, t := range tables {
		names = append(names, t.Figure+".png")
	}
	return names
}

// Figures returns the scatter plots of a report, by name, one for every source.
func (r Report) Figures() map[string]picture.ScatterFigure {
	figures := map[string]picture.ScatterFigure{}
	for _, t := range r.Tables {
		f := figures[t.Figure]
		f.Title = "Predicted against published: " + t.Title
		if len(f.Series) > 0 {
			f.Title = "Predicted against published numbers"
		}
		f.Unit = t.Replayed[0].Unit
		series := picture.ScatterSeries{Name: t.Title}
		for _, row := range t.Replayed {
			point := picture.ScatterPoint{Published: row.Published, Predicted: row.Predicted, Used: row.Used}
			series.Points = append(series.Points, point)
		}
		f.Series = append(f.Series, series)
		figures[t.Figure] = f
	}
	return figures
}
