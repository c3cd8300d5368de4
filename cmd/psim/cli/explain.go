package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	lib "psim"
	"psim/advise"
	"psim/reports"
	"psim/results"
)

// explanation adds what the step is made of and what one change each would give, where
// that is asked for and can be printed.
func (f runFlags) explanation(ctx context.Context, p *lib.Prediction, stderr io.Writer) error {
	if !f.explain {
		return nil
	}
	e, err := p.Explain()
	if p.Result.Explain = e; err != nil || f.csv && f.out == "" {
		return err
	}
	said := newProgress(stderr, f.quiet)
	e.WhatIf, e.Unmeasured, err = advise.WhatIf(ctx, p, func(number, of int, set []string) { said.say("change %d of %d: %v", number, of, set) })
	said.clear()
	return err
}

func (f runFlags) printExplanation(r results.Result, stdout io.Writer) error {
	if !f.explain {
		return nil
	}
	fmt.Fprintln(stdout)
	err := reports.WriteExplanation(stdout, r.Explain)
	fmt.Fprintln(stdout)
	return errors.Join(err, reports.WriteWhatIf(stdout, r))
}
