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

// predictedFolder holds the predictions at the assignment's own sizes if the rest of the
// folder is of measurements.
const predictedFolder = "predicted/"

// resultsFolder holds a folder of each run.
const resultsFolder = "results/"

// Folder returns the folder for the files of a course.
func Folder(path, name string) (files.Folder, error) {
	c, err := find(name)
	if err != nil {
		return files.Folder{}, err
	}
	var all []string
	for _, name := range Names() {
		if other, err := find(name); err == nil {
			all = append(all, other.paths()...)
		}
	}
	return files.Folder{Path: path, Owner: "reproduce", Guarded: c.paths(), Writes: all}, nil
}

// paths lists all files that can be written for a course, so that a file of somebody else
// is found before anything is measured.
func (c course) paths() []string {
	var list []string
	for _, f := range c.Figures {
		list = append(list, f.Path)
	}
	for _, e := range c.Runs {
		for _, folder := range []string{"", predictedFolder} {
			for _, name := range []string{"result.json", "trace.csv", "memory.csv"} {
				list = append(list, resultsFolder+e.folder()+"/"+folder+name)
			}
		}
		var workers int
		switch _, err := fmt.Sscanf(e.Name, "ddp=%d", &workers); {
		case c.Name == "cs1390":
			list = append(list, "data/stats_"+strings.Replace(e.Name, "=", "", 1)+".json")
		case err == nil:
			for i := range workers * c.Count {
				name := fmt.Sprintf("rank%d_results_epoch%d.json", i%workers, i/workers)
				list = append(list, "workdir/"+e.folder()+"/"+name)
			}
		}
	}
	list = append(list, "workdir/performance_summary.json")
	for _, path := range slices.Clone(list) {
		list = append(list, predictedFolder+path)
	}
	return append(list, c.sheets()...)
}

// Save writes the sheet, the figures and the results into a folder. If anything was
// measured, these are the measurements, and the predictions have a folder of their own.
func (r *Reproduction) Save(ctx context.Context, folder files.Folder) error {
	var list []files.File
	for _, name := range r.course.sheets() {
		list = append(list, files.File{Path: name, Render: r.WriteMarkdown})
	}
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

// side lists the figures and results of the measurements, or of the predictions. A figure
// that cannot show measurements shows the predictions, and says so.
func (r *Reproduction) side(within string, measured bool) (list []files.File, err error) {
	for _, f := range r.course.Figures {
		picture, err := r.draw(f, measured && r.shows(f))
		if err != nil {
			return nil, err
		}
		list = append(list, files.File{Path: within + f.Path, Render: render(picture)})
	}
	var runs []*ReproducedRun
	for _, run := range r.Runs {
		folder := within + resultsFolder + run.assigned.folder() + "/"
		switch {
		case !measured:
			list = append(list, saved(folder, run.predicted)...)
		case run.measured != nil:
			predicted, measured := run.measured.Sides()
			list = append(list, append(saved(folder+"predicted/", predicted), saved(folder, measured)...)...)
		default:
			continue
		}
		runs = append(runs, run)
	}
	own, err := r.own(runs, measured)
	for _, f := range own {
		list = append(list, files.File{Path: within + f.Path, Render: f.Render})
	}
	return list, err
}

// side returns the prediction of a run, or its measurement.
func (r *ReproducedRun) side(measured bool) results.Run {
	if measured {
		_, b := r.measured.Sides()
		return b
	}
	return r.predicted
}

// summarized lists the runs of homework 5's summary, all of one host: the homework's in the
// prediction, where GPipe usually has one that is never late, and this machine's otherwise.
func summarized(measured bool) []string {
	gpipe := "gpipe=2 late host"
	if measured {
		gpipe = "gpipe=2"
	}
	return []string{"ddp=1", "ddp=2", "model=2", "pipeline=2", gpipe}
}

// stats returns the file of CS1390's train.py, of all measured steps.
func (r *ReproducedRun) stats(measured bool) (files.File, error) {
	if measured {
		return coursefile.Stats(r.side(true), r.measured.Steps...)
	}
	return coursefile.Stats(r.side(false))
}

// own lists the files that the course's own scripts would have saved of runs. They also say
// what was shrunk.
func (r *Reproduction) own(runs []*ReproducedRun, measured bool) (list []files.File, err error) {
	var results []results.Result
	for _, run := range runs {
		side := run.side(measured)
		switch {
		case strings.Contains(run.Name, " "): // not a run of the assignment
		case r.Course == "cs1390":
			f, err := run.stats(measured)
			if err != nil {
				return nil, err
			}
			list = append(list, remarked("data/", f, side.Result, run.Shrunk))
		case strings.HasPrefix(run.Name, "ddp="):
			for _, f := range coursefile.Epochs(side.Result) {
				list = append(list, remarked("workdir/"+run.assigned.folder()+"/", f, side.Result, run.Shrunk))
			}
		}
		if r.Course == "hw4" && slices.Contains(summarized(measured), run.Name) {
			results = append(results, side.Result)
		}
	}
	if len(results) > 0 {
		list = append(list, remarked("workdir/", coursefile.Summary(results...), results[0], r.Shrunk))
	}
	return list, nil
}

// remarked puts a file of a JSON object into a folder, and adds the kind of its numbers and
// what was shrunk.
func remarked(folder string, f files.File, of results.Result, shrunk []string) files.File {
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
		if of.Kind == results.Measured && len(shrunk) > 0 {
			object["shrunk"] = shrunk
		}
		return files.WriteJSON(w, object)
	}}
}

// saved lists the files of a run that psim plot and psim compare read.
func saved(folder string, r results.Run) []files.File {
	trace := func(w io.Writer) error { return tracecsv.WriteTraceCSV(w, r.Trace) }
	memory := func(w io.Writer) error { return tracecsv.WriteMemoryCSV(w, tracecsv.EachCurve(r.Trace)) }
	return []files.File{
		{Path: folder + "trace.csv", Render: trace},
		{Path: folder + "memory.csv", Render: memory},
		{Path: folder + "result.json", Render: r.Result.WriteJSON},
	}
}
