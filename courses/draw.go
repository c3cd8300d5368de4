package courses

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"psim/internal/units"
	"psim/reports/figures"
	"psim/reports/picture"
)

// draw draws a figure from predictions at the assignment's own size, or from what was
// measured and its own predictions.
func (r *Reproduction) draw(f figure, measured bool) (figures.Picture, error) {
	kind, err := figures.Find(f.Kind)
	if err != nil {
		return nil, err
	}
	request := figures.Request{Key: f.Key, Notes: r.notes(f, measured)}
	for _, name := range f.runs() {
		run := r.find(name)
		if !measured {
			request.Items = append(request.Items, f.item(run))
			continue
		}
		if run.measured != nil {
			a, b := run.measured.Sides()
			request.Items = append(request.Items, figures.Item{Label: name, Run: a}, figures.Item{Label: name, Run: b})
		}
	}
	if !measured {
		request.Notes = figures.PredictedFor(request.Items)
	}
	picture, err := kind.Draw(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return picture, nil
}

// item returns a prediction as psim plot takes it: MODE=WORKERS, or a result in the folder.
func (f figure) item(run *ReproducedRun) figures.Item {
	if f.Saved {
		folder := run.assigned.folder()
		return figures.Item{Label: folder, Path: resultsFolder + folder, Run: run.predicted}
	}
	return figures.Item{Label: run.Name, Run: run.predicted}
}

// notes lists the remarks below a figure of measurements: the machine, and how the figure differs
// from that of the assignment.
func (r *Reproduction) notes(f figure, measured bool) []string {
	if !measured {
		return nil
	}
	list := []string{"predicted from tasks measured alone, and measured, on " + units.Plural(runtime.NumCPU(), "core")}
	list = append(list, r.shrinks(f)...)
	var shared, missing []string
	for _, name := range f.runs() {
		switch run := r.find(name); {
		case run.measured == nil:
			missing = append(missing, name)
		case run.shared():
			shared = append(shared, name)
		}
	}
	if len(shared) > 0 {
		text := "oversubscribed, and so disturbed, with fewer cores than workers: "
		list = append(list, text+strings.Join(shared, ", "))
	}
	if len(missing) > 0 {
		list = append(list, "not measured: "+strings.Join(missing, ", "))
	}
	return list
}

// shrinks says how the measured runs of a figure are smaller than those of the assignment, and
// which ones if they differ.
func (r *Reproduction) shrinks(f figure) (list []string) {
	runs := map[string][]string{}
	var texts []string
	for _, name := range r.measuredOf(f) {
		for _, text := range r.find(name).Shrunk {
			if runs[text] == nil {
				texts = append(texts, text)
			}
			runs[text] = append(runs[text], name)
		}
	}
	for _, text := range texts {
		of := ""
		if len(runs[text]) < len(r.measuredOf(f)) {
			of = strings.Join(runs[text], ", ") + ": "
		}
		list = append(list, "shrunk: "+of+text)
	}
	return list
}

// render writes a picture as PNG.
func render(p figures.Picture) func(io.Writer) error {
	return func(w io.Writer) error { return p(w, picture.PNG) }
}
