package courses

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"psim/courses/coursefile"
	"psim/internal/files"
	"psim/results"
	"psim/results/tracecsv"
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
	return files.Folder{Path: path, Owner: "reproduce", Guarded: c.paths()}, nil
}

// paths lists all files that can be written for a course, so that one of somebody else's
// is found before anything is measured.
func (c course) paths() []string {
	var list []string
	for _, f := range c.figures {
		list = append(list, f.path)
	}
	for _, e := range c.runs {
		for _, folder := range []string{"", predictedFolder} {
			list = append(list, "results/"+e.folder()+"/"+folder+"result.json", "results/"+e.folder()+"/"+folder+"trace.csv", "results/"+e.folder()+"/"+folder+"memory.csv")
		}
		var workers int
		switch _, err := fmt.Sscanf(e.name, "ddp=%d", &workers); {
		case c.name == "cs1390":
			list = append(list, "data/stats_"+strings.Replace(e.name, "=", "", 1)+".json")
		case err == nil:
			for i := range workers * c.count {
				list = append(list, fmt.Sprintf("workdir/%s/rank%d_results_epoch%d.json", e.folder(), i%workers, i/workers))
			}
		}
	}
	list = append(list, "workdir/performance_summary.json")
	for _, path := range slices.Clone(list) {
		list = append(list, predictedFolder+path)
	}
	return append(list, sheetName)
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
// that cannot show what was measured is that of the predictions, and says so.
func (r *Reproduction) side(within string, measured bool) (list []files.File, err error) {
	for _, f := range r.course.figures {
		picture, err := r.draw(f, measured && r.shows(f))
		if err != nil {
			return nil, err
		}
		list = append(list, files.File{Path: within + f.path, Render: render(picture)})
	}
	var runs []*Run
	for _, run := range r.Runs {
		folder := within + "results/" + run.folder() + "/"
		switch {
		case !measured:
			list, runs = append(list, saved(folder, run.predicted)...), append(runs, run)
		case run.measured != nil:
			a, b := run.measured.Sides()
			list, runs = append(list, append(saved(folder+"predicted/", a), saved(folder, b)...)...), append(runs, run)
		}
	}
	own, err := r.own(runs, measured)
	for _, f := range own {
		list = append(list, files.File{Path: within + f.Path, Render: f.Render})
	}
	return list, err
}

// side returns the prediction of a run, or its measurement.
func (r *Run) side(measured bool) results.Run {
	if measured {
		_, b := r.measured.Sides()
		return b
	}
	return r.predicted
}

// own lists what the course's own scripts would have saved of runs. What was shrunk
// stands there, too.
func (r *Reproduction) own(runs []*Run, measured bool) (list []files.File, err error) {
	var results []results.Result
	for _, run := range runs {
		side := run.side(measured)
		switch {
		case strings.Contains(run.Name, " "): // the assignment has no such run
		case r.Course == "cs1390":
			f, err := coursefile.Stats(side)
			if err != nil {
				return nil, err
			}
			list = append(list, r.remarked("data/", f, side.Result))
		case strings.HasPrefix(run.Name, "ddp="):
			for _, f := range coursefile.Epochs(side.Result) {
				list = append(list, r.remarked("workdir/"+run.folder()+"/", f, side.Result))
			}
		}
		if r.Course == "hw4" && slices.Contains([]string{"ddp=1", "ddp=2", "model=2", "gpipe=2"}, run.Name) {
			results = append(results, side.Result)
		}
	}
	if len(results) > 0 {
		list = append(list, r.remarked("workdir/", coursefile.Summary(results...), results[0]))
	}
	return list, nil
}

// remarked puts a file of a JSON object into a folder, with the kind of its numbers and
// what was shrunk in it.
func (r *Reproduction) remarked(folder string, f files.File, of results.Result) files.File {
	return files.File{Path: folder + f.Path, Render: func(w io.Writer) error {
		var text bytes.Buffer
		if err := f.Render(&text); err != nil {
			return err
		}
		object := map[string]any{}
		if err := json.Unmarshal(text.Bytes(), &object); err != nil {
			return err
		}
		object["kind"] = of.Kind
		if of.Kind == results.Measured && len(r.Shrunk) > 0 {
			object["shrunk"] = r.Shrunk
		}
		return files.WriteJSON(w, object)
	}}
}

// saved lists the files of a run from which psim plot and psim compare draw all else.
func saved(folder string, r results.Run) []files.File {
	return []files.File{
		{Path: folder + "trace.csv", Render: func(w io.Writer) error { return tracecsv.WriteTraceCSV(w, r.Trace) }},
		{Path: folder + "memory.csv", Render: func(w io.Writer) error { return tracecsv.WriteMemoryCSV(w, tracecsv.MemoryCurves(r.Trace)) }},
		{Path: folder + "result.json", Render: r.Result.WriteJSON},
	}
}
