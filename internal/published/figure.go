package published

import "psim/reports"

// Figures returns the scatter plots of a report, by name, one for every source.
func (r Report) Figures() map[string]reports.ScatterFigure {
	figures := map[string]reports.ScatterFigure{}
	for _, t := range r.Tables {
		f := figures[t.Figure]
		f.Title = t.Figure + ": predicted against published"
		f.Unit = t.Replayed[0].Unit
		series := reports.ScatterSeries{Name: t.Title}
		for _, row := range t.Replayed {
			series.Points = append(series.Points, reports.ScatterPoint{Published: row.Published, Predicted: row.Predicted, Used: row.Used})
		}
		f.Series = append(f.Series, series)
		figures[t.Figure] = f
	}
	return figures
}
