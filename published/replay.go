package published

import (
	"context"
	"fmt"
	"math"

	"psim/internal/units"
	"psim/reports/picture"
)

// A Report is tables that have been replayed.
type Report struct {
	Tables []Result `json:"tables"`
}

// A Result is a table that has been replayed. Errors are fractions of what was
// published; the mean, the median and the worst are of absolute errors, over the
// rows that no constant was fitted to.
type Result struct {
	Name        string  `json:"name"`
	Rows        int     `json:"rows"`     // of the table
	Compared    int     `json:"compared"` // of them, those in the errors
	MeanError   float64 `json:"mean_error"`
	MedianError float64 `json:"median_error"`
	WorstError  float64 `json:"worst_error"`
	WorstRow    string  `json:"worst_row"`
	// AllMean and AllWorst are over all rows, those that were used included.
	AllMean    float64 `json:"all_rows_mean_error"`
	AllWorst   float64 `json:"all_rows_worst_error"`
	Fitted     bool    `json:"fitted"`
	FittedFrom string  `json:"fitted_from,omitempty"`
	DeviceFrom string  `json:"device_from,omitempty"`
	Title      string  `json:"title"`
	Paper      string  `json:"paper"`
	Place      string  `json:"place"`
	Claim      string  `json:"claim,omitempty"`
	Note       string  `json:"note,omitempty"`
	Figure     string  `json:"figure"`
	Orders     []Order `json:"orders,omitempty"` // of plans for one training
	// Splits divide the errors of training runs by what their source says of them.
	Splits   []Split `json:"splits,omitempty"`
	Replayed []Row   `json:"replayed"`
}

// Replay predicts all rows of tables, and ends between two where it is interrupted.
func Replay(ctx context.Context, tables []Table) (Report, error) {
	r := Report{Tables: []Result{}}
	for _, t := range tables {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		result, err := t.replay()
		if err != nil {
			return r, fmt.Errorf("%s: %w", t.Name, err)
		}
		r.Tables = append(r.Tables, result)
	}
	return r, nil
}

func (t Table) replay() (Result, error) {
	rows, err := t.Rows()
	if err != nil {
		return Result{}, err
	}
	r := Result{
		Name: t.Name, Rows: len(rows), Fitted: t.Fitted != "", FittedFrom: t.Fitted, DeviceFrom: t.Device,
		Title: t.Title, Paper: t.Paper, Place: t.Place, Claim: t.Claim, Note: t.Note, Figure: t.Figure, Splits: splits(rows), Orders: orders(rows), Replayed: rows,
	}
	return r, r.summarize()
}

// summarize computes the errors of the rows that were not used.
func (t *Result) summarize() error {
	var off []float64
	for _, row := range t.Replayed {
		e := math.Abs(row.Error())
		if math.IsNaN(e) || math.IsInf(e, 0) {
			return fmt.Errorf("row %s: predicted %v and published %v have no relative error", row.Label, row.Predicted, row.Published)
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

// Figures returns the scatter plots of a report, by name, one for every source.
func (r Report) Figures() map[string]picture.ScatterFigure {
	figures := map[string]picture.ScatterFigure{}
	for _, t := range r.Tables {
		f := figures[t.Figure]
		f.Title = t.Figure + ": predicted against published"
		f.Unit = t.Replayed[0].Unit
		series := picture.ScatterSeries{Name: t.Title}
		for _, row := range t.Replayed {
			series.Points = append(series.Points, picture.ScatterPoint{Published: row.Published, Predicted: row.Predicted, Used: row.Used})
		}
		f.Series = append(f.Series, series)
		figures[t.Figure] = f
	}
	return figures
}
