package measure

import (
	"context"
	"runtime"
	"slices"
	"time"

	"psim/exec/data"
	"psim/exec/run"
	"psim/exec/train"
	"psim/internal/ram"
	"psim/internal/units"
	"psim/schedules/graph"
)

// A Profile has the traces of steps in which tasks were measured: every task alone and, in as
// many other steps, tasks of several ranks together. Steps of the two kinds alternate, so that
// both see the machine in the same state.
type Profile struct {
	Alone    []*graph.Trace
	Together []*graph.Trace // nil if only one task at a time can compute
	Cores    int            // how many tasks of the devices can run at once; 0 is any number
}

// While the machine is disturbed, there are up to mostRounds times as many rounds as were asked
// for. It is disturbed if the median round takes more than unsteady times as long as the
// shortest.
const (
	mostRounds = 3
	unsteady   = 1.05
)

// Tasks measures every task of a trainer's step alone, and at the same time as those of other
// ranks, r.AtOnce in all. It runs steps one task after another, drops the first, which warms up,
// and returns the traces of the others: r.Repeats of each kind or, while the machine is
// disturbed, more. The trainer is then Reset to its first parameters.
func Tasks(ctx context.Context, t *train.Trainer, b data.StepBatch, r Rounds) (p Profile, err error) {
	defer ram.HoldGarbage()()
	p.Cores = r.AtOnce
	s := profiling{trainer: t, batch: b, options: r.Options}
	s.at.Steps = 1 + 2*mostRounds*r.Repeats
	if _, err := s.step(ctx, 1); err != nil {
		return Profile{}, err
	}
	for again := true; again; {
		if err := p.round(ctx, &s); err != nil {
			return Profile{}, err
		}
		if again, err = p.another(ctx, r); err != nil {
			return Profile{}, err
		}
	}
	s.at.Step--
	if err := t.CheckParameters(ctx, b, s.at, r.Options); err != nil {
		return Profile{}, err
	}
	return p, t.Reset()
}

// Rounds say how tasks are profiled.
type Rounds struct {
	run.Options
	// Repeats is how often every task is measured at least.
	Repeats int
}

// A profiling runs the steps of a profile.
type profiling struct {
	trainer *train.Trainer
	batch   data.StepBatch
	options run.Options
	at      train.Repetition // the next step
}

// step runs the next step, with tasks of some ranks at the same time.
func (s *profiling) step(ctx context.Context, atOnce int) (*graph.Trace, error) {
	runtime.GC()
	s.options.AtOnce = atOnce
	trace, err := s.trainer.StepOneByOne(ctx, s.batch, s.at, s.options)
	s.at.Step++
	return trace, err
}

// round adds a step of each kind.
func (p *Profile) round(ctx context.Context, s *profiling) error {
	trace, err := s.step(ctx, 1)
	if err != nil {
		return err
	}
	p.Alone = append(p.Alone, trace)
	if atOnce := min(p.Cores, trace.Graph.Ranks()); atOnce > 1 {
		if trace, err = s.step(ctx, atOnce); err != nil {
			return err
		}
		p.Together = append(p.Together, trace)
	}
	return nil
}

// another reports whether one more round is needed. Of several processes, the first decides.
func (p *Profile) another(ctx context.Context, o Rounds) (bool, error) {
	n := len(p.Alone)
	again := n < o.Repeats || n < mostRounds*o.Repeats && p.Disturbed()
	if o.World == nil {
		return again, nil
	}
	word := []byte{0}
	if again {
		word[0] = 1
	}
	word, err := o.World.Broadcast(ctx, o.World.Next("round"), word)
	return err == nil && len(word) > 0 && word[0] == 1, err
}

// Disturbed reports whether something else was running during most rounds.
func (p *Profile) Disturbed() bool { return disturbed(p.Alone) || disturbed(p.Together) }

// disturbed reports whether something else was running during most steps of the same tasks.
func disturbed(traces []*graph.Trace) bool {
	var sums []time.Duration
	for _, t := range traces {
		var sum time.Duration
		for i := range t.Spans {
			sum += t.Spans[i].Duration()
		}
		sums = append(sums, sum)
	}
	return len(sums) > 0 && float64(units.Median(sums)) > unsteady*float64(slices.Min(sums))
}
