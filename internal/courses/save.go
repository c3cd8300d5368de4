package courses

import (
	"context"
	"io"

	"psim/internal/files"
	"psim/reports"
)

// Sheet is the name of the sheet of answers.
const sheetName = "answers.md"

// predictedFolder holds the predictions at the assignment's own sizes where the rest of
// the folder is of what was measured.
const predictedFolder = "predicted/"

// Folder returns the folder that the files of a course go into.
func Folder(path, name string) (files.Folder, error) {
	c, err := find(name)
	if err != nil {
		return files.Folder{}, err
	}
	f := files.Folder{Path: path, Owner: "reproduce", Guarded: []string{sheetName}}
	for _, figure := range c.figures {
		f.Guarded = append(f.Guarded, figure.path)
	}
	return f, nil
}

// Save writes the sheet, the figures and the results into a folder: those of what was
// measured, and then all predictions in a folder of their own.
func (r *Reproduction) Save(ctx context.Context, folder files.Folder) error {
	list := []files.File{{Path: sheetName, Render: r.WriteMarkdown}}
	within := ""
	if r.MeasuredOn != "" {
		more, err := r.side("", true)
		if err != nil {
			return err
		}
		list, within = append(list, more...), predictedFolder
	}
	more, err := r.side(within, false)
	if err != nil {
		return err
	}
	return folder.Write(ctx, append(list, more...))
}

// side lists the figures and results of all that was measured, or predicted. A figure
// of which nothing was measured is that of the predictions, and says so.
func (r *Reproduction) side(within string, measured bool) (list []files.File, err error) {
	for _, f := range r.course.figures {
		picture, err := r.draw(f, measured && len(r.measuredOf(f)) > 0)
		if err != nil {
			return nil, err
		}
		list = append(list, files.File{Path: within + f.path, Render: render(picture)})
	}
	for _, run := range r.Runs {
		folder := within + "results/" + run.folder() + "/"
		switch {
		case !measured:
			list = append(list, saved(folder, run.predicted)...)
		case run.measured != nil:
			a, b := run.measured.Sides()
			list = append(list, append(saved(folder+"predicted/", a), saved(folder, b)...)...)
		}
	}
	return list, nil
}

// saved lists the files of a run from which psim plot and psim compare draw all else.
func saved(folder string, r reports.Run) []files.File {
	return []files.File{
		{Path: folder + "trace.csv", Render: func(w io.Writer) error { return reports.WriteTraceCSV(w, r.Trace) }},
		{Path: folder + "memory.csv", Render: func(w io.Writer) error { return reports.WriteMemoryCSV(w, reports.MemoryCurves(r.Trace)) }},
		{Path: folder + "result.json", Render: r.Result.WriteJSON},
	}
}
