package figures

import (
	"fmt"
	"io"

	"psim/reports/picture"
	"psim/results"
)

// timeline draws the timelines of results, one below the other.
func timeline(r Request) (Picture, error) {
	var runs []results.Run
	for i := range r.Items {
		item := &r.Items[i]
		if item.Run.Trace == nil {
			return nil, fmt.Errorf("%s: the result has no trace.csv next to it; "+
				"run psim run again with --out, and with --trace if it has many tasks", item.named())
		}
		if err := drawable(item.named(), item.Run, r.View); err != nil {
			return nil, err
		}
		runs = append(runs, item.Run)
	}
	return func(w io.Writer, format string) error { return r.view().Timelines(w, format, runs...) }, nil
}

// view returns the view to show, with the notes.
func (r Request) view() picture.View {
	v := r.View
	v.Notes = r.Notes
	return v
}

// pair reads a measured result and its prediction.
func (r Request) pair(path string) (predicted, measured results.Run, err error) {
	if r.Pair == nil {
		return results.LoadPair(path)
	}
	return r.Pair(path)
}

// drawable returns an error if a timeline cannot show a run.
func drawable(name string, run results.Run, view picture.View) error {
	if !run.Drawable() {
		return Nothing{fmt.Errorf("%s: the run takes no time, so there is nothing to draw", name)}
	}
	if err := view.Check(run.Trace); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// compare draws two results, or a measured one and its prediction, and how far the second
// is from the first.
func compare(r Request) (Picture, error) {
	a := r.Items[0].Run
	b, err := a, error(nil)
	switch {
	case len(r.Items) == 2:
		b = r.Items[1].Run
	case r.Items[0].Path == "":
		return nil, fmt.Errorf("%s: is a prediction, so there is nothing to compare it with; name two results",
			r.Items[0].Label)
	default:
		if a, b, err = r.pair(r.Items[0].Path); err != nil {
			return nil, err
		}
	}
	for i, run := range []results.Run{a, b} {
		name := r.Items[min(i, len(r.Items)-1)].named()
		switch {
		case run.Trace == nil && i == 0 && len(r.Items) == 1:
			return nil, fmt.Errorf("%s: its prediction has no trace.csv, so there is nothing to draw", name)
		case run.Trace == nil:
			return nil, fmt.Errorf("%s: the result has no trace.csv next to it, so there is nothing to draw", name)
		}
		if err := drawable(name, run, r.View); err != nil {
			return nil, err
		}
	}
	return func(w io.Writer, format string) error { return r.view().Compare(w, format, a, b) }, nil
}
