package exec

import (
	"context"
	"runtime"
	"slices"
	"time"

	"psim/internal/units"
	"psim/schedules/graph"
)

// A Profile has the traces of steps in which tasks were measured: every one alone, and
// in as many others what several ranks compute together. A step of one kind is followed by
// one of the other, so that both find the machine alike.
type Profile struct {
	Alone    []*graph.Trace
	Together []*graph.Trace // none where only one at a time can compute
	Cores    int            // how many tasks of the devices can run at once; 0 is any number
}

// A round is repeated up to mostRounds times as often as asked for while the machine is
// disturbed: while the round in the middle takes unsteady times as long as the shortest.
const (
	mostRounds = 3
	unsteady   = 1.05
)

// Profile measures every task alone, and beside those of as many ranks as o.AtOnce says:
// it runs steps one task after another, drops the first, which warms up, and returns the
// traces of the others, of each kind so many or, while the machine is disturbed, more. The
// trainer then begins anew, with its first parameters.
func (t *Trainer) Profile(ctx context.Context, b Batch, repeats int, o RunOptions) (p Profile, err error) {
	defer holdGarbage()()
	p.Cores = o.AtOnce
	most, steps := 1+2*mostRounds*repeats, 0
	step := func(atOnce int) (*graph.Trace, error) {
		runtime.GC()
		o.AtOnce = atOnce
		trace, _, err := t.stepWith(ctx, OneByOne, b, o, nil)
		if err != nil {
			err = t.explain(ctx, func(int) Batch { return b }, NumberError{Step: steps, Steps: most, Seen: err}, o)
		}
		steps++
		return trace, err
	}
	if _, err := step(1); err != nil {
		return Profile{}, err
	}
	for again := true; again; {
		if err := p.round(step, min(p.Cores, t.job.Graph.Ranks())); err != nil {
			return Profile{}, err
		}
		if again, err = p.another(ctx, repeats, o); err != nil {
			return Profile{}, err
		}
	}
	if err := t.checkParameters(); err != nil {
		return Profile{}, t.explain(ctx, func(int) Batch { return b }, NumberError{Step: steps - 1, Steps: most, Seen: err}, o)
	}
	return p, t.Reset()
}

// round adds a step of each kind.
func (p *Profile) round(step func(atOnce int) (*graph.Trace, error), atOnce int) error {
	trace, err := step(1)
	if err != nil {
		return err
	}
	p.Alone = append(p.Alone, trace)
	if atOnce > 1 {
		if trace, err = step(atOnce); err != nil {
			return err
		}
		p.Together = append(p.Together, trace)
	}
	return nil
}

// another reports whether one more round is needed; of several processes the first says so.
func (p *Profile) another(ctx context.Context, repeats int, o RunOptions) (bool, error) {
	n := len(p.Alone)
	again := n < repeats || n < mostRounds*repeats && p.Disturbed()
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

// Disturbed reports whether something else ran during most rounds.
func (p *Profile) Disturbed() bool { return disturbed(p.Alone) || disturbed(p.Together) }

// disturbed reports whether something else ran during most steps of the same tasks.
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
