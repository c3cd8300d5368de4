// Package courses makes what the assignments on parallel training of two courses ask for,
// CMU's 11-868 (homework 4) and Brown's CS1390: every run predicted, and measured if that is
// wanted, in sizes that end within a budget of time; the figures under the names that the
// assignments give them, the results, and a sheet of answers.
//
// A course is data, a TOML file: runs, figures, what the assignment asks, and the sizes that
// are measured. Make predicts and measures, and Reproduction.Save writes.
package courses

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"psim/configs"
	"psim/courses/modes"
	"psim/internal/nearest"
	"psim/results"
)

//go:embed *.toml
var courseFiles embed.FS

// A course is what an assignment asks for.
type course struct {
	Name, Title string
	Device      string // for which runs are predicted
	Machine     string // the same in words
	Published   string // table of published measurements on it, which psim validate replays
	Note        string // on all runs
	Questions   bool   // the assignment has questions
	Epochs      bool   // runs are counted in epochs, not steps
	Count       int    // of steps or epochs of a run of the assignment
	Sets        []string
	Series      []series
	Runs        []assignedRun `toml:"run"` // those of the series, and further ones
	Figures     []figure      `toml:"figure"`
	Tasks       []task        `toml:"task"`
	Sizes       []size        `toml:"size"` // of measured runs, the largest first
	Claims      []claim       `toml:"claim"`
}

// A series is the runs of a mode on several numbers of workers.
type series struct {
	Mode, Config   string
	Batch          int // of a replica; 0 if workers are stages
	Workers, Asked []int
	Sets           []string
}

// An assignedRun is a run of an assignment, or one that shows more.
type assignedRun struct {
	Name   string // MODE=WORKERS, and what else distinguishes it
	Config string // the example that it is
	Sets   []string
	Asked  bool // by the assignment; the others show how it goes on
	// Same names the run that this one equals if it is measured, because it differs only in the
	// machine that is predicted.
	Same string
}

// A figure is a picture of some runs.
type figure struct {
	Path    string // in the folder, as the assignment names it
	Kind    string // of package figures
	Key     string // the number that it draws, for kinds that take one
	Runs    string // their names, with commas between
	Caption string
	// Saved says that it is drawn from results in the folder, because its runs are not all of
	// the form MODE=WORKERS.
	Saved bool
}

// A task is what an assignment wants to be shown, and the figures that show it.
type task struct {
	Title, Asks string
	Figures     []string
	// Questions lists the ids of the questions that belong to it, in order.
	Questions []string
	// Says is what answers it from results: data, pipeline or nothing.
	Says string
}

// A size says how much of a run is measured.
type size struct {
	Divisor int64 // of the batch; a pipeline keeps enough samples for its microbatches
	// Microbatch is how many samples these have at least; 0 is 1.
	Microbatch int64
	Presets    map[string]string // smaller networks by the names of those that they replace
	Sets       []string
	Text       []string // says what the settings and presets shrink

	times int64 // how many times longer an epoch is than the shortest
}

// Names lists the courses.
func Names() []string { return []string{"hw4", "cs1390"} }

// find reads the course with the given name.
func find(name string) (c course, err error) {
	if !slices.Contains(Names(), name) {
		return c, fmt.Errorf("unknown course %q; use %s%s",
			name, strings.Join(Names(), " or "), nearest.Suggest(name, Names()))
	}
	read, err := toml.DecodeFS(courseFiles, name+".toml", &c)
	if err != nil || len(read.Undecoded()) > 0 {
		panic(fmt.Sprintf("%s.toml: %v %v", name, err, read.Undecoded())) // of psim's own, which is tested
	}
	c.Name = name
	var runs []assignedRun
	for _, s := range c.Series {
		runs = append(runs, s.runs()...)
	}
	c.Runs = append(runs, c.Runs...)
	for i := range c.Runs {
		c.Runs[i].Sets = append(c.Runs[i].Sets, c.Sets...)
	}
	return c, nil
}

// runs lists the runs of a series.
func (s series) runs() (list []assignedRun) {
	for _, n := range s.Workers {
		sets := []string{fmt.Sprint("schedule.stages=", n)}
		if s.Batch > 0 {
			sets = []string{fmt.Sprint("parallel.data=", n), fmt.Sprint("batch.global=", s.Batch*n)}
		}
		sets = append(sets, s.Sets...)
		list = append(list, assignedRun{
			Name: fmt.Sprintf("%s=%d", s.Mode, n), Config: s.Config, Sets: sets, Asked: slices.Contains(s.Asked, n),
		})
	}
	return list
}

// load makes the configuration of a run at the assignment's own size.
func (r assignedRun) load() (*configs.Config, error) { return configs.Load(r.Config, r.Sets...) }

// command returns the command line that predicts the run by itself.
func (r assignedRun) command() string {
	words := []string{"psim run", r.Config}
	for _, s := range r.Sets {
		words = append(words, "--set "+s)
	}
	return strings.Join(words, " ")
}

// folder names the run's folder.
func (r assignedRun) folder() string { return strings.NewReplacer("=", "-", " ", "-").Replace(r.Name) }

// runs lists the names of the runs that a figure is of.
func (f figure) runs() []string { return modes.Words(f.Runs) }

// figure returns the figure with the given path.
func (c course) figure(path string) figure {
	for _, f := range c.Figures {
		if f.Path == path {
			return f
		}
	}
	return figure{}
}

// unit names what a run of the course is counted in.
func (c course) unit() string {
	if c.Epochs {
		return "epoch"
	}
	return "step"
}

// counted counts the steps, or whole epochs, that were measured.
func (c course) counted(r results.Result) int {
	switch {
	case !c.Epochs:
		return len(r.Steps)
	case r.Epochs == nil: // it was ended before
		return 0
	}
	return r.Epochs.Number
}
