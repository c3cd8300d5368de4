package reports

import "io"

// Timelines draws the traces of runs one above the other on one time axis.
func Timelines(w io.Writer, format string, runs ...Run) error {
	if len(runs) == 1 {
		return Timeline(w, format, runs[0].title(), Panel{Trace: runs[0].Trace})
	}
	var panels []Panel
	for _, r := range runs {
		panels = append(panels, Panel{Trace: r.Trace, Label: r.label()})
	}
	return Timeline(w, format, "timelines", panels...)
}

// Drawable reports whether a run has a timeline.
func (r Run) Drawable() bool { return r.Trace != nil && r.Trace.End() > 0 }

// title describes a run by its configuration and trace, and says whether it was
// measured.
func (r Run) title() string {
	title := Title(r.Trace, r.Result.TensorParallel)
	if r.Result.Name != "" && r.Result.Name != r.Trace.Graph.Name {
		title = r.Result.Name + "  ·  " + title
	}
	if r.Result.Kind == Measured {
		title += "  ·  measured"
	}
	return title
}

// label names one of several runs.
func (r Run) label() string {
	name := r.Result.Name
	if r.Result.Schedule != name {
		name += " (" + r.Result.Schedule + ")"
	}
	return name + ", " + r.Result.Kind
}
