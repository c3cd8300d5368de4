package courses

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psim"
	"psim/courses/questions"
	"psim/exec/programs"
	"psim/exec/session"
	"psim/results"
)

// Options say what is made of a course. The others are those of measured runs.
type Options struct {
	session.Options
	// Measure runs for real what the assignment runs, and then what else there is
	// time for.
	Measure bool
	// Full measures in the assignment's own sizes.
	Full bool
	// Budget is the time that measuring may take; 0 is any.
	Budget time.Duration
}

// A Reproduction is all that was found for an assignment.
type Reproduction struct {
	Course string `json:"course"`
	// PredictedFor is the machine of the predictions.
	PredictedFor string `json:"predicted_for"`
	// MeasuredOn is the machine of the measurements; empty where nothing was measured.
	MeasuredOn string   `json:"measured_on,omitempty"`
	Shrunk     []string `json:"shrunk,omitempty"` // against the assignment, in what was measured
	Runs       []*Run   `json:"runs"`
	Figures    []Figure `json:"figures"`
	// Questions are those of the assignment, answered from predictions, and
	// MeasuredQuestions those about graphs from what was measured.
	Questions         []questions.Answer `json:"questions,omitempty"`
	MeasuredQuestions []questions.Answer `json:"measured_questions,omitempty"`

	course course
	// unanswered says which questions there was too little measured for.
	unanswered []string
}

// A Run is one of an assignment.
type Run struct {
	Name    string `json:"name"`
	Command string `json:"command"` // that predicts it by itself
	Asked   bool   `json:"asked"`   // by the assignment
	// Predicted is at the assignment's own size.
	Predicted results.Result `json:"predicted"`
	// Measured has its own prediction in it: of the size that was measured, from tasks
	// that were measured alone. It is nil where nothing was measured.
	Measured *results.Result `json:"measured,omitempty"`
	// LeftOut says why nothing was measured.
	LeftOut string `json:"left_out,omitempty"`

	experiment
	predicted results.Run
	measured  *session.Run
}

// A Figure is a picture in the folder.
type Figure struct {
	Path     string   `json:"path"`
	Runs     []string `json:"runs"`
	Measured []string `json:"measured,omitempty"` // those of the runs that were measured, if it shows them
}

// Make predicts and measures what a course asks for. What ends it early comes back as
// an error, with what was found until then; nil where nothing was measured that was to be.
func Make(ctx context.Context, name string, o Options) (*Reproduction, error) {
	c, err := find(name)
	if err != nil {
		return nil, err
	}
	return c.make(ctx, o)
}

// make makes what a course asks for.
func (c course) make(ctx context.Context, o Options) (r *Reproduction, err error) {
	r = &Reproduction{Course: c.name, PredictedFor: c.machine, course: c}
	for _, e := range c.runs {
		config, err := e.load()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		p, err := psim.Predict(ctx, config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		r.Runs = append(r.Runs, &Run{Name: e.name, Command: e.command(), Asked: e.asked, Predicted: p.Result, experiment: e, predicted: p.Run()})
	}
	if o.Measure {
		r.MeasuredOn = fmt.Sprintf("%s, gomlx's backend %s", programs.Processor(), o.Devices.Backend)
		if err = r.measure(ctx, o); len(r.names(func(run *Run) bool { return run.measured != nil })) == 0 {
			return nil, err
		}
	}
	if c.questions {
		err = errors.Join(err, r.answer(context.WithoutCancel(ctx)))
	}
	for _, f := range c.figures {
		figure := Figure{Path: f.path, Runs: f.runs}
		if r.shows(f) {
			figure.Measured = r.measuredOf(f)
		}
		r.Figures = append(r.Figures, figure)
	}
	return r, err
}

// result returns the prediction of a run, or the measurement, which may be nil.
func (r *Run) result(measured bool) *results.Result {
	if measured {
		return r.Measured
	}
	return &r.Predicted
}

// find returns the run of a name.
func (r *Reproduction) find(name string) *Run {
	for _, run := range r.Runs {
		if run.Name == name {
			return run
		}
	}
	return nil
}

// shows reports whether a figure is of what was measured: if anything of it was, or all
// where a single run would say nothing.
func (r *Reproduction) shows(f figure) bool {
	n := len(r.measuredOf(f))
	return n == len(f.runs) || n > 0 && f.kind != "sweep" && f.kind != "memory"
}

// measuredOf lists the runs of a figure that were measured.
func (r *Reproduction) measuredOf(f figure) (names []string) {
	for _, name := range f.runs {
		if r.find(name).measured != nil {
			names = append(names, name)
		}
	}
	return names
}
