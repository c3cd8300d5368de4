package psim

import (
	"slices"
	"strings"

	"psim/costmodel"
	"psim/results"
	"psim/sim"
)

// Explain says what the step's time is made of, over all ranks and along the critical
// path, and which settings price that. WhatIf adds what changes would give.
func (p *Prediction) Explain() (*results.Explanation, error) {
	made := p.Config.Times.MadeOf
	if p.Plan.Workload != nil {
		var err error
		if made, err = costmodel.MadeOf(p.Plan.Machine, p.Plan.Workload, p.Plan.Graph.Ranks()); err != nil {
			return nil, err
		}
	}
	e := results.NewExplanation(p.Trace, sim.CriticalPath(p.Trace), made)
	e.Settings, e.WhatIf = []results.Pricing{}, []results.WhatIf{}
	for _, s := range p.Config.Pricing(p.Plan) {
		if classes := present(e, s.Classes); classes != nil {
			e.Settings = append(e.Settings, results.Pricing{Key: s.Key, Value: s.Value, From: s.From, Classes: classes})
		}
	}
	return e, nil
}

// present lists the classes of an explanation that some names stand for.
func present(e *results.Explanation, names []string) (classes []string) {
	for _, class := range e.Classes() {
		if slices.ContainsFunc(names, func(n string) bool {
			return n == class || strings.HasSuffix(n, "_") && strings.HasPrefix(class, n)
		}) {
			classes = append(classes, class)
		}
	}
	return classes
}
