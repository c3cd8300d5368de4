package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	lib "psim"
	"psim/reports"
)

// explainable refuses --explain where there is no place for it.
func (f runFlags) explainable() error {
	if f.explain && f.csv {
		return errors.New("--explain: has no place in --csv; leave one of them out, or take --json")
	}
	return nil
}

// explanation adds what one change each would give, where that is asked for.
func (f runFlags) explanation(ctx context.Context, p *lib.Prediction, stderr io.Writer) error {
	if !f.explain {
		return nil
	}
	said := newProgress(stderr, f.quiet)
	list, err := p.WhatIf(ctx, func(number, of int, set []string) { said.say("change %d of %d: %v", number, of, set) })
	said.clear()
	p.Result.Explain = &reports.Explanation{WhatIf: list}
	return err
}

func (f runFlags) printExplanation(r reports.Result, stdout io.Writer) error {
	if !f.explain {
		return nil
	}
	fmt.Fprintln(stdout)
	return reports.WriteExplanation(stdout, r)
}
