package courses

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psim"
	"psim/courses/questions"
	"psim/exec/backend"
	"psim/exec/session"
	"psim/results"
)

// Options say how a course is reproduced. The options of package session are for measured
// runs.
type Options struct {
	session.Options
	// Measure says to measure the runs of the assignment, and then further ones as long as
	// there is time.
	Measure bool
	// Full says to measure in the assignment's own sizes.
	Full bool
	// Budget is the time that measuring may take; 0 is without a limit.
	Budget time.Duration
}

// A Reproduction is everything that was made for an assignment.
type Reproduction struct {
	Course string `json:"course"`
	// PredictedFor is the machine of the predictions.
	PredictedFor string `json:"predicted_for"`
	// MeasuredOn is the machine of the measurements; it is empty if nothing was measured.
	MeasuredOn string `json:"measured_on,omitempty"`
	// Shrunk says how measured runs are smaller than those of the assignment.
	Shrunk []string `json:"shrunk,omitempty"`
	// MeasuredWithin is the budget of measuring, and MeasuredFor what it took of that, in seconds.
	MeasuredWithin float64 `json:"budget_s,omitempty"`
	MeasuredFor    float64 `json:"used_s,omitempty"`
	// Claims are what the assignment's runs are to show, and whether they do on this machine.
	Claims  []Claim            `json:"claims,omitempty"`
	Runs    []*ReproducedRun   `json:"runs"`
	Figures []ReproducedFigure `json:"figures"`
	// Questions are those of the assignment, answered from predictions, and
	// MeasuredQuestions those about graphs from what was measured.
	Questions         []questions.QuestionAnswer `json:"questions,omitempty"`
	MeasuredQuestions []questions.QuestionAnswer `json:"measured_questions,omitempty"`

	course course
	// unanswered lists the questions for which too little was measured.
	unanswered []string
}

// A ReproducedRun is a run of an assignment, or one that shows more.
type ReproducedRun struct {
	Name    string `json:"name"`
	Command string `json:"command"` // that predicts it by itself
	Asked   bool   `json:"asked"`   // by the assignment
	// Predicted is at the assignment's own size.
	Predicted results.Result `json:"predicted"`
	// Measured contains its own prediction: of the size that was measured, from tasks that
	// were measured alone. It is nil if the run was not measured.
	Measured *results.Result `json:"measured,omitempty"`
	// Shrunk says how the measured run is smaller than that of the assignment.
	Shrunk []string `json:"shrunk,omitempty"`
	// LeftOut says why the run was not measured.
	LeftOut string `json:"left_out,omitempty"`

	assigned  assignedRun
	predicted results.Run
	measured  *session.Trial
}

// A ReproducedFigure is a picture in the folder.
type ReproducedFigure struct {
	Path     string   `json:"path"`
	Runs     []string `json:"runs"`
	Measured []string `json:"measured,omitempty"` // the runs whose measurements it shows
}

// Make predicts and measures what a course asks for. If something ends it early, it returns
// the error with what was made until then, or nil if runs should have been measured and none
// was.
func Make(ctx context.Context, name string, o Options) (*Reproduction, error) {
	c, err := find(name)
	if err != nil {
		return nil, err
	}
	return c.make(ctx, o)
}

// make makes what a course asks for.
func (c course) make(ctx context.Context, o Options) (r *Reproduction, err error) {
	r = &Reproduction{Course: c.Name, PredictedFor: c.Machine, course: c}
	for _, e := range c.Runs {
		run, err := e.predict(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
		r.Runs = append(r.Runs, run)
	}
	if o.Measure {
		r.MeasuredOn = fmt.Sprintf("%s, gomlx's backend %s", backend.Processor(), o.Options.Measure.Devices.Backend)
		if err = r.measure(ctx, o); r.nothingMeasured() {
			return nil, err
		}
	}
	r.claim()
	if c.Questions {
		err = errors.Join(err, r.answer(context.WithoutCancel(ctx)))
	}
	for _, f := range c.Figures {
		figure := ReproducedFigure{Path: f.Path, Runs: f.runs()}
		if r.shows(f) {
			figure.Measured = r.measuredOf(f)
		}
		r.Figures = append(r.Figures, figure)
	}
	return r, err
}

// predict predicts a run at the assignment's own size.
func (r assignedRun) predict(ctx context.Context) (*ReproducedRun, error) {
	config, err := r.load()
	if err != nil {
		return nil, err
	}
	p, err := psim.Predict(ctx, config)
	if err != nil {
		return nil, err
	}
	return &ReproducedRun{
		Name: r.Name, Command: r.command(), Asked: r.Asked, Predicted: p.Result,
		assigned: r, predicted: p.Run(),
	}, nil
}

// nothingMeasured reports whether no run was measured.
func (r *Reproduction) nothingMeasured() bool {
	return !slices.ContainsFunc(r.Runs, func(run *ReproducedRun) bool { return run.measured != nil })
}

// result returns the prediction of a run, or the measurement, which may be nil.
func (r *ReproducedRun) result(measured bool) *results.Result {
	if measured {
		return r.Measured
	}
	return &r.Predicted
}

// find returns the run with the given name.
func (r *Reproduction) find(name string) *ReproducedRun {
	for _, run := range r.Runs {
		if run.Name == name {
			return run
		}
	}
	return nil
}

// shows reports whether a figure is drawn from measurements: if any of its runs was
// measured, or all of them if it is of a kind in which a single run says nothing.
func (r *Reproduction) shows(f figure) bool {
	n := len(r.measuredOf(f))
	return n == len(f.runs()) || n > 0 && f.Kind != "sweep" && f.Kind != "memory"
}

// measuredOf lists the runs of a figure that were measured.
func (r *Reproduction) measuredOf(f figure) (names []string) {
	for _, name := range f.runs() {
		if r.find(name).measured != nil {
			names = append(names, name)
		}
	}
	return names
}
