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

// addExplanation adds to a prediction what the step's time is made of and what single changes would
// give, if --explain is given. Single changes are not part of the CSV on stdout.
func (f runFlags) addExplanation(ctx context.Context, p *lib.Prediction, stderr io.Writer) error {
	if !f.explain {
		return nil
	}
	e, err := p.Explain()
	if p.Result.Explain = e; err != nil || f.csv && f.out == "" {
		return err
	}
	progress := newProgress(stderr, f.quiet)
	e.WhatIf, e.Unmeasured, err = advise.WhatIf(ctx, p, func(number, of int, set []string) {
		progress.showf("change %d of %d: %v", number, of, set)
	})
	progress.clear()
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
