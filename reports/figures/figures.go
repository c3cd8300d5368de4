// Package figures draws the figures that people show of their results: bars of time and
// throughput with the ideal values, stacks of the parts of a step or of its memory,
// lines and maps of sweeps, and the timelines of package picture. FigureKinds lists the
// kinds of figure; each kind is a row of that table and a small file.
//
// A figure takes predicted or measured results. If there are both of one experiment, they
// stand next to each other. Equal results give equal bytes.
package figures

import (
	"fmt"
	"io"
	"strings"

	"psim/internal/nearest"
	"psim/internal/units"
	"psim/reports/picture"
	"psim/results"
)

// An Item is a result to draw.
type Item struct {
	Label string   // its name in the figure, unless a shorter one distinguishes the items
	Path  string   // where it was read from; "" for a prediction that was just made
	Set   []string // the settings of a point of a sweep, as KEY=VALUE
	Run   results.Run
}

// A Request says what to draw.
type Request struct {
	Items []Item
	Key   string       // which number of the results to draw, for kinds that take a key
	View  picture.View // which part of the timelines to show
	Notes []string     // remarks on the whole figure, for its legend
	// Pair reads a measured result and its prediction. If it is nil, results.LoadPair is used.
	Pair func(path string) (predicted, measured results.Run, err error)
}

// A Loader reads the results in a file or folder of another program. It returns no
// items and no error if the path is something else.
type Loader func(path string) ([]Item, error)

// A Picture writes itself in a format of package reports.
type Picture func(w io.Writer, format string) error

// Nothing is the error of a figure that would be empty although the results are valid.
type Nothing struct{ error }

// A FigureKind is a kind of figure.
type FigureKind struct {
	Name  string
	Draws string // what it draws, for people
	Takes string // which results it takes
	// Key says that the kind draws a number of the results whose key must be given.
	// Metric says that the key may be given.
	Key, Metric bool
	// Timeline says that the kind shows a View.
	Timeline    bool
	least, most int // numbers of results that it takes; a most of 0 is any number
	load        func(path string) ([]Item, error)
	draw        func(Request) (Picture, error)
}

// What kinds of figure take.
const (
	takesResults = "results"
	takesTraces  = "results with trace.csv"
	takesPoints  = "a sweep, or results"
)

// FigureKinds lists all kinds of figure.
func FigureKinds() []FigureKind {
	return []FigureKind{
		{
			Name: "timeline", Draws: "when every rank does what, a result below the other", Takes: takesTraces,
			Timeline: true, least: 1, load: loadRun, draw: timeline,
		},
		{
			Name:  "memory",
			Draws: "memory over time of one result; of several, what their fullest ranks hold at the peak",
			Takes: takesResults, least: 1, load: loadRun, draw: memory,
		},
		{
			Name: "compare",
			Draws: "two timelines and how far the second is from the first, " +
				"or a measured one below its own prediction",
			Takes:    "two " + takesTraces + ", or one measured",
			Timeline: true, least: 1, most: 2, load: loadRun, draw: compare,
		},
		{
			Name: "time", Draws: "the time of a step, or of an epoch where all results know one",
			Takes: takesResults, least: 1, load: loadResults, draw: stepTime,
		},
		{
			Name: "throughput", Draws: "samples or tokens per second, and what would be ideal",
			Takes: takesResults, least: 1, load: loadResults, draw: throughput,
		},
		{
			Name: "split-time", Draws: "what a step is made of: computation, exposed communication, optimizer, idle",
			Takes: takesResults, least: 1, load: loadResults, draw: splitTime,
		},
		{
			Name: "efficiency", Draws: "throughput per device against that with the fewest devices",
			Takes: takesResults, least: 2, load: loadResults, draw: efficiency,
		},
		{
			Name: "metric", Draws: "any number of the results, such as bubble.makespan",
			Takes: "a KEY and " + takesResults, Key: true, least: 1, load: loadResults, draw: metric,
		},
		{
			Name: "loss", Draws: "the loss of every step", Takes: "measured results",
			least: 1, load: loadResults, draw: loss,
		},
		{
			Name: "heatmap", Draws: "a number of the results over two settings",
			Takes: takesPoints, Metric: true, least: 1, load: loadPoints, draw: heatmap,
		},
		{
			Name: "sweep", Draws: "a number of the results over a setting, a line for each value of the others",
			Takes: takesPoints, Metric: true, least: 1, load: loadPoints, draw: sweep,
		},
	}
}

// Names lists the names of the kinds.
func Names() []string {
	var names []string
	for _, k := range FigureKinds() {
		names = append(names, k.Name)
	}
	return names
}

// Find returns the kind with a name. In the name, _ may be written for -.
func Find(name string) (FigureKind, error) {
	for _, k := range FigureKinds() {
		if k.Name == strings.ReplaceAll(name, "_", "-") {
			return k, nil
		}
	}
	return FigureKind{}, fmt.Errorf("unknown figure %q; use one of %s%s",
		name, strings.Join(Names(), ", "), nearest.Suggest(name, Names()))
}

// Load reads the results at a path that the kind can draw: a result, by its folder or its
// result.json, or a sweep. Unless foreign is nil, it reads the files of other programs.
func (k FigureKind) Load(path string, foreign Loader) ([]Item, error) {
	if foreign != nil {
		if list, err := foreign(path); len(list) > 0 || err != nil {
			return list, err
		}
	}
	return k.load(path)
}

// Draw checks the request and returns the picture.
func (k FigureKind) Draw(r Request) (Picture, error) {
	switch n := len(r.Items); {
	case n < k.least:
		return nil, fmt.Errorf("psim plot %s takes at least %s, not %d", k.Name, units.Plural(k.least, "result"), n)
	case k.most > 0 && n > k.most:
		return nil, fmt.Errorf("psim plot %s takes at most %s, not %d", k.Name, units.Plural(k.most, "result"), n)
	}
	return k.draw(r)
}
