package session

import (
	"math"
	"slices"

	"psim/exec/measure"
	"psim/results"
)

// steadiness says how steady the machine was, by the spread of steps and the probes around
// them; nil without probes.
func steadiness(spread float64, probes []measure.Probe) *results.Steadiness {
	if len(probes) == 0 {
		return nil
	}
	s := &results.Steadiness{Spread: spread}
	best, worst := math.Inf(1), 0.0
	for _, p := range probes {
		best, worst = min(best, p.Fastest.Seconds()), max(worst, p.Fastest.Seconds())
	}
	s.Change = worst/best - 1
	for _, p := range probes {
		s.Slowdown = max(s.Slowdown, p.Mean.Seconds()/best-1)
	}
	return s
}

// leastDisturbed repeats a run while the machine is disturbed, up to a number of tries. It
// returns the run with the lowest score, with the attempts of all. A failed run ends the
// repetition, and is returned only if it was the first.
func leastDisturbed(tries int, run func() (*Trial, error)) (*Trial, error) {
	var best *Trial
	var attempts []results.Attempt
	var failed error
	for range max(1, tries) {
		r, err := run()
		failed = err
		if r == nil || err != nil && best != nil {
			break
		}
		m := r.Result.Measurement
		attempts = append(attempts, results.Attempt{
			Steps: slices.Clone(m.Steps), StepTime: r.Result.StepTime, Predicted: r.Result.Predicted.StepTime,
			Disturbed: m.Disturbed, Steadiness: m.Steadiness,
		})
		if best == nil || score(r) < score(best) {
			best = r
		}
		if err != nil || !m.Disturbed {
			break
		}
	}
	if best == nil {
		return nil, failed
	}
	best.Result.RunsMade = len(attempts)
	if len(attempts) > 1 {
		best.Result.Attempts = attempts
	}
	return best, failed
}

// score returns how disturbed a run was. Above 1 it was disturbed too much.
func score(r *Trial) float64 {
	if s := r.Result.Steadiness; s != nil {
		return s.Score()
	}
	return 0
}
