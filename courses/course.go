// Package courses makes what the assignments on parallel training of two courses ask
// for, CMU's 11-868 (homework 4) and Brown's CS1390: every run predicted, and run for
// real if that is wanted, in sizes that end within a budget of time; the figures under
// the names that the assignments give them, the results, and a sheet of answers.
//
// A course is a table of runs, figures and sizes. Make predicts and measures, and
// Reproduction.Save writes.
package courses

import (
	"fmt"
	"slices"
	"strings"

	"psim/configs"
	"psim/internal/nearest"
	"psim/results"
)

// A course is what an assignment asks for.
type course struct {
	name, title string
	device      string // that is predicted
	machine     string // the same in words
	published   string // tables of others' measurements there, which psim validate replays
	runs        []experiment
	figures     []figure
	sizes       []size // of measured runs, the largest first
	count       int    // of steps or epochs that a run of the assignment has
	epochs      bool   // it is epochs
	tasks       []task
	questions   bool // the assignment has questions
}

// An experiment is a run of an assignment, or one that belongs beside them.
type experiment struct {
	name   string // MODE=WORKERS, and what else tells it apart
	config string // the example that it is
	sets   []string
	asked  bool // by the assignment; others show how it goes on
}

// A figure is a picture of some runs.
type figure struct {
	path    string // in the folder, as the assignment names it
	kind    string // of package figures
	key     string // the number that it draws, for kinds that take one
	runs    []string
	caption string
}

// A task is what an assignment wants to be shown, and the figures that show it.
type task struct {
	title   string
	asks    string
	figures []string
	// says answers it from the results of runs, which are predicted or measured; it says
	// nothing where one is missing. It may be nil.
	says func(of func(name string) *results.Result) string
}

// A size says how much of a run is measured.
type size struct {
	divisor int64             // of the batch, of which a pipeline keeps enough for its microbatches
	presets map[string]string // smaller networks in place of others
	sets    []string
	text    []string // what sets and presets shrink
}

// Names lists the courses.
func Names() []string { return []string{"hw4", "cs1390"} }

// find returns the course of a name.
func find(name string) (course, error) {
	switch name {
	case "hw4":
		return hw4(), nil
	case "cs1390":
		return cs1390(), nil
	}
	return course{}, fmt.Errorf("unknown course %q; use %s%s", name, strings.Join(Names(), " or "), nearest.Suggest(name, Names()))
}

// load makes the configuration of a run at the assignment's own size.
func (e experiment) load() (*configs.Config, error) { return configs.Load(e.config, e.sets...) }

// command tells how to predict the run by itself.
func (e experiment) command() string {
	words := []string{"psim run", e.config}
	for _, s := range e.sets {
		words = append(words, "--set "+s)
	}
	return strings.Join(words, " ")
}

// unit names what a run of the course is counted in.
func (c course) unit() string { return map[bool]string{true: "epoch", false: "step"}[c.epochs] }

// counted counts the steps, or whole epochs, that were measured.
func (c course) counted(r results.Result) int {
	switch {
	case !c.epochs:
		return len(r.Steps)
	case r.Epochs == nil: // it was ended before
		return 0
	}
	return r.Epochs.Number
}

// folder names the run's folder.
func (e experiment) folder() string { return strings.NewReplacer("=", "-", " ", "-").Replace(e.name) }

// words makes the names of runs of a mode.
func words(mode string, workers ...int) (list []string) {
	for _, n := range workers {
		list = append(list, fmt.Sprintf("%s=%d", mode, n))
	}
	return list
}

// replicated makes the runs of a data-parallel mode, where every worker has a batch of
// its own.
func replicated(mode, config string, batch int, asked []int, workers ...int) (list []experiment) {
	for i, name := range words(mode, workers...) {
		n := workers[i]
		list = append(list, experiment{name, config, []string{fmt.Sprint("parallel.data=", n), fmt.Sprint("batch.global=", batch*n)}, slices.Contains(asked, n)})
	}
	return list
}

// with adds settings to runs.
func with(list []experiment, sets ...string) []experiment {
	for i := range list {
		list[i].sets = append(slices.Clone(list[i].sets), sets...)
	}
	return list
}

// staged makes the runs of a mode whose workers have a part of the network each.
func staged(mode, config string, asked []int, workers ...int) (list []experiment) {
	for i, name := range words(mode, workers...) {
		list = append(list, experiment{name, config, []string{fmt.Sprint("schedule.stages=", workers[i])}, slices.Contains(asked, workers[i])})
	}
	return list
}
